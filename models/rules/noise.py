"""Positives by changing the order or number of words (Generate-CSE, appendix on its modules)."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.english.words import NUMBER_WORDS
from tercet.models.generation import Method, MethodInput, Output, Several, methods
from tercet.models.text.word_noise import (
    SHORT,
    Changed,
    Words,
    cut,
    in_another_order,
    repeated,
    sentences_of,
    shuffled,
    words_of,
)

_WORD = re.compile(r"\S+")
# A word with a digit, a number word or a negation.
_NEGATIONS = (
    "no|not|never|none|nor|neither|nobody|nothing|nowhere|without|cannot|hardly|scarcely|barely"
    "|rarely|seldom|few|little|unless|except"
)
_FACT = re.compile(
    rf"\d|n['’]t\b|\b(?:{_NEGATIONS}|{'|'.join(sorted(NUMBER_WORDS))})\b", re.IGNORECASE
)


def word_repetition(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Repeats up to 0.3 of a sentence's words in place."""

    def repeat(words: Words, copy: int) -> Changed:
        return repeated(words, seed, copy)

    return _generated(inputs, params.per_sentence, "word_repetition", 1, repeat)


def cutoff(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Some words deleted, never a negation, a number, a word of a mention or of a name.

    Sentences of more than three words lose N from [1, min(6, floor(words / 3))], or fewer if fewer
    words can be deleted. A sentence without such words has no row.
    """

    def delete(words: Words, copy: int) -> Changed:
        return cut(words, seed, copy)

    return _generated(inputs, params.per_sentence, "cutoff", SHORT + 1, delete, _can_go)


def word_shuffle(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Puts a sentence's words into a random order, never the original order."""

    def shuffle(words: Words, copy: int) -> Changed:
        return shuffled(words, seed, copy)

    return _generated(inputs, params.per_sentence, "word_shuffle", 2, shuffle)


def _can_go(inputs: MethodInput, rows: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether each word of these anchors, concatenated, can be deleted without changing a fact."""
    texts = inputs.texts()
    spans = [[match.span() for match in _WORD.finditer(texts[row])] for row in rows]
    flat = [
        texts[row][start:end]
        for row, row_spans in zip(rows, spans, strict=True)
        for start, end in row_spans
    ]
    distinct = {word: _FACT.search(word) is None for word in set(flat)}
    first = np.array([i == 0 for row_spans in spans for i in range(len(row_spans))], dtype=np.bool_)
    # A capitalised word within a sentence is a name, even if it is not a mention.
    names = np.array([word[0].isupper() for word in flat], dtype=np.bool_) & ~first
    free = np.array([distinct[word] for word in flat], dtype=np.bool_) & ~names
    if inputs.mentions is None:
        raise ValueError("this method needs mentions, and was given none")
    # One coordinate for all texts: the characters of a row begin at row * width.
    width = 1 + max(map(len, texts), default=0)
    base = (
        np.repeat(np.array(rows, dtype=np.int64), [len(row_spans) for row_spans in spans]) * width
    )
    starts = base + np.array(
        [start for row_spans in spans for start, _ in row_spans], dtype=np.int64
    )
    ends = base + np.array([end for row_spans in spans for _, end in row_spans], dtype=np.int64)
    for kind in ("entity", "quantity"):
        mentions = inputs.located(kind)
        line = mentions["row"].to_numpy() * width
        begin = np.searchsorted(ends, line + mentions["start"].to_numpy(), side="right")
        behind = np.searchsorted(starts, line + mentions["end"].to_numpy(), side="left")
        inside = np.zeros(len(flat) + 1, dtype=np.int64)
        np.add.at(inside, np.minimum(begin, behind), 1)
        np.add.at(inside, behind, -1)
        free &= np.cumsum(inside)[:-1] == 0
    return free


def _generated(
    inputs: MethodInput,
    copies: int,
    operation: str,
    least: int,
    change: Callable[[Words, int], Changed],
    free: Callable[[MethodInput, Sequence[int]], npt.NDArray[np.bool_]] | None = None,
) -> pa.Table:
    split = [text.split() for text in inputs.texts()]
    long = [i for i, words in enumerate(split) if len(words) >= least]
    sources = [split[i] for i in long]
    words = words_of(inputs.ids()[long], sources, free and free(inputs, long))
    changed = [sentences_of(change(words, copy)) for copy in range(copies)]
    output = Output()
    for i, (sentence_id, source) in enumerate(zip(words.ids.tolist(), sources, strict=True)):
        for variants in changed:
            new = variants[i]
            if operation == "word_shuffle":
                new = in_another_order(new, source)
            if new and new != source:
                output.add(sentence_id, " ".join(new), operation)
    return output.table()


METHODS = methods(
    Method("word_repetition", "positive", "keeps", word_repetition, Several, languages=()),
    Method("cutoff", "positive", "keeps", cutoff, Several, ("mentions",)),
    Method("word_shuffle", "positive", "topic", word_shuffle, Several, languages=()),
)
