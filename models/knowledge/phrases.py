"""A trie of phrases as sorted arrays, walked by many positions of a text at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MAX_WORDS = 4

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Phrases:
    """Phrases of 1 to `MAX_WORDS` words.

    words: word to its number, below `len(words)`; the first level's nodes are these numbers.
    keys: sorted, ``node << 32 | word`` of each step from a node to a longer one.
    nodes: the node that each key leads to.
    entries: node to the number of the phrase that ends there, -1 where none does.
    """

    words: dict[str, int]
    keys: npt.NDArray[np.uint64]
    nodes: Ints
    entries: Ints

    def step(self, node: Ints, word: Ints) -> Ints:
        """The node one word further, row by row; -1 where there is none."""
        if not len(self.keys):
            return np.full(len(node), -1, dtype=np.int64)
        known = (node >= 0) & (word >= 0)
        key = (np.where(known, node, 0).astype(np.uint64) << np.uint64(32)) | np.where(
            known, word, 0
        ).astype(np.uint64)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(known & (self.keys[at] == key), self.nodes[at], -1)

    def entry(self, node: Ints) -> Ints:
        """The phrase that ends at each node, -1 where none does or the node is -1."""
        return np.where(node >= 0, self.entries[node], -1)


def build(phrases: Iterable[Sequence[str]]) -> Phrases:
    """The trie of phrases, given as sequences of words; the n-th phrase's number is n.

    A phrase that comes again keeps its first number. Raises ValueError for one of no words or of
    more than `MAX_WORDS`.
    """
    words: dict[str, int] = {}
    rows = [tuple(phrase) for phrase in phrases]
    for row in rows:
        if not 1 <= len(row) <= MAX_WORDS:
            raise ValueError(f"a phrase has 1 to {MAX_WORDS} words, not {len(row)}: {row!r}")
        for word in row:
            if word not in words:
                words[word] = len(words)
    count = len(words)
    steps: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, row in enumerate(rows):
        node = words[row[0]]
        for word in row[1:]:
            key = node << 32 | words[word]
            node = steps.setdefault(key, count + len(steps))
        ends.setdefault(node, number)
    keys = np.fromiter(steps.keys(), dtype=np.uint64, count=len(steps))
    nodes = np.fromiter(steps.values(), dtype=np.int64, count=len(steps))
    order = np.argsort(keys)
    entries = np.full(max(1, count + len(steps)), -1, dtype=np.int64)
    entries[np.fromiter(ends.keys(), dtype=np.int64, count=len(ends))] = np.fromiter(
        ends.values(), dtype=np.int64, count=len(ends)
    )
    return Phrases(words, keys[order], nodes[order], entries)
