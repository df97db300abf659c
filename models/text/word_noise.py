"""Repeats, deletes or shuffles words of many sentences at once, by seeded draws.

The result for a sentence depends on the seed, its id and the copy alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.runs import places_within

_COPY = 1 << 32

# Generate-CSE's numbers: up to 0.3 of the words are repeated; in sentences of more than 3 words up
# to 6, and at most a third, are deleted.
REPEATED = 0.3
SHORT, DELETED, MOST_DELETED = 3, 1 / 3, 6
# GCSE's code: fewer words than this share of a sentence and than 10; of a short one fewer than 2.
FEW, FEWEST, MOST_FEW = 0.05, 2, 10

# The words of all changed sentences, concatenated, and the number of words of each sentence.
Changed = tuple[npt.NDArray[np.object_], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Words:
    """The words of sentences as columns. free: whether a word may be deleted. row, place: sentence
    of a word and index in it. counts: (rows,), words of each sentence."""

    ids: seeding.Ids
    flat: npt.NDArray[np.object_]
    free: npt.NDArray[np.bool_]
    row: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def ranks(self, seed: int, purpose: str, copy: int) -> npt.NDArray[np.int64]:
        """The rank of each word in a random order of its sentence, free words first."""
        counter = (self.place + copy * _COPY).astype(np.uint64)
        keys = seeding.draws(seed, purpose, self.ids[self.row], counter)
        order = np.lexsort((keys, ~self.free, self.row))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = self.place
        return ranks


def words_of(
    ids: seeding.Ids,
    sentences: Sequence[Sequence[str]],
    free: npt.NDArray[np.bool_] | None = None,
) -> Words:
    """The words of these sentences. free: whether each word may be deleted; None: all."""
    counts = np.array([len(words) for words in sentences], dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    place = places_within(counts)
    flat = np.array([word for words in sentences for word in words], dtype=object)
    if free is None:
        free = np.ones(len(flat), dtype=np.bool_)
    return Words(ids, flat, free, row, place, counts)


def repeated(words: Words, seed: int, copy: int) -> Changed:
    """Repeats 1 to max(1, floor(0.3 * (words - 1))) words of each sentence in place (VAEGPT-Sim,
    section 3).
    """
    most = np.maximum(1, np.floor(REPEATED * (words.counts - 1))).astype(np.int64)
    times = _times(words, seed, "word_repetition", copy, most)
    chosen = words.ranks(seed, "word_repetition", copy) < times[words.row]
    return np.repeat(words.flat, 1 + chosen), words.counts + times


def repeated_few(words: Words, seed: int, copy: int) -> Changed:
    """Repeats a word of every second sentence in place, as GCSE's code does to the anchor.

    Repeats 0 to min(10, n, max(2, floor(0.05 * n))) - 1 of n words, each number with equal chance,
    and never the last word.
    """
    bound = np.maximum(FEWEST, (FEW * words.counts).astype(np.int64))
    bound = np.minimum(np.minimum(bound, words.counts), MOST_FEW)
    times = seeding.below(seed, "word_repetition.times", words.ids, np.maximum(bound, 1), copy)
    inner = replace(words, free=words.place < words.counts[words.row] - 1)
    chosen = inner.ranks(seed, "word_repetition", copy) < times[words.row]
    return np.repeat(words.flat, 1 + chosen), words.counts + times


def cut(words: Words, seed: int, copy: int) -> Changed:
    """Deletes 1 to min(6, floor(words / 3)) of each sentence's free words."""
    # 1e-9 makes a third of 9 words 3 despite rounding.
    some = np.floor(DELETED * words.counts + 1e-9).astype(np.int64)
    free = np.bincount(words.row, weights=words.free, minlength=len(words.counts))
    most = np.minimum(np.clip(some, 1, MOST_DELETED), free.astype(np.int64))
    times = np.minimum(_times(words, seed, "cutoff", copy, np.maximum(most, 1)), most)
    gone = words.free & (words.ranks(seed, "cutoff", copy) < times[words.row])
    return words.flat[~gone], words.counts - times


def shuffled(words: Words, seed: int, copy: int) -> Changed:
    """All words of each sentence in a random order, which may be the original."""
    order = np.lexsort((words.ranks(seed, "word_shuffle", copy), words.row))
    return words.flat[order], words.counts


def sentences_of(changed: Changed) -> list[list[str]]:
    """The words of each sentence."""
    flat, counts = changed
    listed: list[Any] = flat.tolist()
    ends = [0, *np.cumsum(counts).tolist()]
    return [listed[start:end] for start, end in pairwise(ends)]


def in_another_order(words: Sequence[str], source: Sequence[str]) -> list[str]:
    """The words; if they are in the order of the source, the first word is moved to the end."""
    return [*source[1:], *source[:1]] if list(words) == list(source) else list(words)


def _times(
    words: Words, seed: int, purpose: str, copy: int, most: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    return 1 + seeding.below(seed, f"{purpose}.times", words.ids, most, copy)
