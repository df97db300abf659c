"""Positives from the context: other sentences of the paragraph, or the next paragraph."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from tercet.models.config import Config
from tercet.models.generation import Method, MethodInput, Output, methods

# Openings of a sentence that contrasts with the sentence before it.
_OPPOSITE = re.compile(
    r"\W*(?:(?:otherwise|unlike|conversely|instead|however|nevertheless|nonetheless|whereas|although"
    r"|by contrast|in contrast|contrary to|on the contrary|on the other hand|rather|alternatively"
    r"|but|yet|if not|if false|else|except|unless|apart from|the opposite|compared (?:to|with)"
    r"|still|despite|even so|even though|though|while|when not|without|not)\b"
    r"|(?:this|it|that|these|they) (?:differs?|contrasts?)\b"
    r"|[^.,;]{1,40}, (?:however|by contrast|in contrast|on the other hand|instead|conversely)\b)",
    re.IGNORECASE,
)
_CASE = re.compile(r"\W*(for|if|when|with)\b(?! (?:example|instance|more|this|these|the))", re.I)
# From (index of the anchor, its row) to candidate rows, the best first.
_Candidates: TypeAlias = Callable[[int, int], Iterator[int]]


class Length(Config):
    """Maximum length of the positive, which has whole sentences."""

    max_words: int = Field(64, ge=1, le=1024, description="words of the positive, at most")


def next_sentences(inputs: MethodInput, params: Length, seed: int) -> pa.Table:
    """The sentences after the anchor in its paragraph, as many as fit."""
    _, last, _ = _paragraphs(inputs)
    return _positives(
        inputs, params, "next_sentences", lambda i, row: iter(range(row + 1, int(last[i])))
    )


def rest_of_paragraph(inputs: MethodInput, params: Length, seed: int) -> pa.Table:
    """The paragraph without the anchor: its nearest sentences that fit, in text order."""
    first, last, _ = _paragraphs(inputs)

    def outwards(i: int, row: int) -> Iterator[int]:
        low, high = int(first[i]), int(last[i])
        for distance in range(1, max(row - low, high - 1 - row) + 1):
            if row + distance < high:
                yield row + distance
            if row - distance >= low:
                yield row - distance

    return _positives(inputs, params, "rest_of_paragraph", outwards)


def neighbour_paragraph(inputs: MethodInput, params: Length, seed: int) -> pa.Table:
    """The beginning of the document's next paragraph, as many sentences as fit."""
    _, last, after = _paragraphs(inputs)
    return _positives(
        inputs,
        params,
        "neighbour_paragraph",
        lambda i, row: iter(range(int(last[i]), int(after[i]))),
    )


def _paragraphs(
    inputs: MethodInput,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each anchor: first row and end of its paragraph, and end of the next paragraph of the
    document (the end of its own paragraph if it is the last)."""
    docs = inputs.sentences["doc_id"].to_numpy()
    paragraphs = inputs.sentences["paragraph"].to_numpy()
    rows = len(docs)
    new_doc = np.ones(rows + 1, dtype=bool)
    new_doc[1:-1] = docs[1:] != docs[:-1]
    new = new_doc.copy()
    new[1:-1] |= paragraphs[1:] != paragraphs[:-1]
    bounds = np.flatnonzero(new)
    group = np.searchsorted(bounds, inputs.anchors, side="right") - 1
    last = bounds[group + 1]
    following = bounds[np.minimum(group + 2, len(bounds) - 1)]
    return bounds[group], last, np.where(new_doc[last], last, following)


def _positives(
    inputs: MethodInput, params: Length, operation: str, candidates: _Candidates
) -> pa.Table:
    texts = inputs.sentences["text"].to_pylist()
    words = inputs.sentences["n_words"].to_pylist()
    output = Output()
    for i, (row, sentence_id) in enumerate(
        zip(inputs.anchors.tolist(), inputs.ids().tolist(), strict=True)
    ):
        room = params.max_words
        chosen = []
        for other in candidates(i, row):
            room -= words[other]
            if room < 0:
                break
            chosen.append(other)
        chosen.sort()
        if chosen and not _opposes(row, chosen, texts):
            raw = " ".join([texts[other] for other in chosen])
            output.add(sentence_id, raw, operation)
    return output.table()


def _opposes(row: int, chosen: Sequence[int], texts: Sequence[str]) -> bool:
    """Whether the chosen sentences contrast with the anchor, or the anchor with them.

    Also if both begin with the case for which they hold: "For a list …", "For a set …".
    """
    first = texts[chosen[0]]
    if _OPPOSITE.match(first) or (chosen[0] < row and _OPPOSITE.match(texts[row])):
        return True
    # The sentence right after the anchor may contrast with it, wherever it is in the positive.
    if row + 1 in chosen and _OPPOSITE.match(texts[row + 1]):
        return True
    case, candidate_case = _CASE.match(first), _CASE.match(texts[row])
    return bool(
        case and candidate_case and case.group(1).lower() == candidate_case.group(1).lower()
    )


METHODS = methods(
    *(
        Method(name, "positive", "topic", generate, Length, ("documents",), languages=())
        for name, generate in (
            ("next_sentences", next_sentences),
            ("rest_of_paragraph", rest_of_paragraph),
            ("neighbour_paragraph", neighbour_paragraph),
        )
    )
)
