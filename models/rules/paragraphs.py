"""Positives from the neighbourhood: other sentences of the paragraph, and the next paragraph."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from tercet.models.generation import Given, Method, Output, Params, methods

# (index of the anchor, its row) to the rows to take from, the best first
_Candidates: TypeAlias = Callable[[int, int], Iterator[int]]


class Length(Params):
    """How much of the neighbourhood is taken: whole sentences, up to a number of words."""

    max_words: int = Field(64, ge=1, le=1024, description="words of the positive, at most")


def next_sentences(given: Given, params: Length, seed: int) -> pa.Table:
    """The sentences that follow the anchor in its paragraph, as many as fit."""
    _, last, _ = _paragraphs(given)
    return _taken(
        given, params, "next_sentences", lambda i, row: iter(range(row + 1, int(last[i])))
    )


def rest_of_paragraph(given: Given, params: Length, seed: int) -> pa.Table:
    """The paragraph without the anchor: the sentences nearest to it that fit, in text order."""
    first, last, _ = _paragraphs(given)

    def outwards(i: int, row: int) -> Iterator[int]:
        low, high = int(first[i]), int(last[i])
        for distance in range(1, max(row - low, high - 1 - row) + 1):
            if row + distance < high:
                yield row + distance
            if row - distance >= low:
                yield row - distance

    return _taken(given, params, "rest_of_paragraph", outwards)


def neighbour_paragraph(given: Given, params: Length, seed: int) -> pa.Table:
    """The beginning of the document's next paragraph, as many sentences as fit."""
    _, last, after = _paragraphs(given)
    return _taken(
        given,
        params,
        "neighbour_paragraph",
        lambda i, row: iter(range(int(last[i]), int(after[i]))),
    )


def _paragraphs(
    given: Given,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each anchor's paragraph: its first row, the row behind it, and the row behind the next
    paragraph of the document (the same as the second where there is none)."""
    docs = given.sentences["doc_id"].to_numpy()
    paragraphs = given.sentences["paragraph"].to_numpy()
    rows = len(docs)
    new_doc = np.ones(rows + 1, dtype=bool)
    new_doc[1:-1] = docs[1:] != docs[:-1]
    new = new_doc.copy()
    new[1:-1] |= paragraphs[1:] != paragraphs[:-1]
    bounds = np.flatnonzero(new)
    group = np.searchsorted(bounds, given.anchors, side="right") - 1
    last = bounds[group + 1]
    following = bounds[np.minimum(group + 2, len(bounds) - 1)]
    return bounds[group], last, np.where(new_doc[last], last, following)


def _taken(given: Given, params: Length, operation: str, candidates: _Candidates) -> pa.Table:
    texts = given.sentences["text"].to_pylist()
    words = given.sentences["n_words"].to_pylist()
    output = Output()
    for i, (row, sentence_id) in enumerate(
        zip(given.anchors.tolist(), given.ids().tolist(), strict=True)
    ):
        room = params.max_words
        chosen = []
        for other in candidates(i, row):
            room -= words[other]
            if room < 0:
                break
            chosen.append(other)
        if chosen:
            raw = " ".join([texts[other] for other in sorted(chosen)])
            output.add(sentence_id, raw, operation)
    return output.table()


METHODS = methods(
    Method("next_sentences", "positive", next_sentences, Length, ("documents",)),
    Method("rest_of_paragraph", "positive", rest_of_paragraph, Length, ("documents",)),
    Method("neighbour_paragraph", "positive", neighbour_paragraph, Length, ("documents",)),
)
