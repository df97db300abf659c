"""Finds texts with nearly the same words: a Jaccard index of at least 0.8 ("like" texts).

A text is the set of its words, as `shingles` normalises them. Only texts that share a key are
compared, word by word. There are two kinds of keys; neither misses a pair of like texts.

*Parts*, for `ties`: the partition of Arasu, Ganti and Kaushik (VLDB 2006, section 4). Like sets of
at most r words differ in at most 2r/9 words. If a hash of each word puts it into one of 2r/9 + 1
parts, some part is equal in both sets. Sizes fall into bands such that like texts lie in the same
band or in neighbouring ones; a text has the keys of its own band and of the next. These keys depend
only on the text. Parts of common words are shared by many texts, so only the first few texts of a
key are compared; texts of more than 256 words have no such keys.

*Rare words*, for `shared_with`, which compares all texts of a key: the prefix filter of Chaudhuri,
Ganti and Kaushik (ICDE 2006), with several words a key (AdaptJoin: Wang, Li and Feng, SIGMOD 2012).
Sort the words of each text, the rarest of the corpus first. A text of n words shares at least 4n/5
with each like text, so the first l shared words are among the first n/5 + l of either text; these l
words make a key. Words between those of a key are not shared. Like texts have at most a ninth of
all their words unshared, so one of the two has at most n/8 words there; two texts that both have
more are not compared.

Words and keys lie in files (`shared_keys.py`). 16 bytes a text and one file of keys are in memory.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.runs import begins, distinct, pieces, ranges
from tercet.models.seeding import Ids
from tercet.tasks.corpus.shared_keys import Flags, Places, SharedKeys, append

Index: TypeAlias = npt.NDArray[np.int32]

# Words and pairs of texts that are processed at once.
_WORDS = 1 << 19
_PAIRS = 1 << 20
# (words of a key, least words, and below how many words) of the smaller of two like texts. With
# more words in a key, fewer texts share it, but a text has more keys.
_RARE_KEYS = ((1, 1, 2), (2, 2, 3), (3, 3, 24), (2, 24, 96), (1, 96, 1 << 40))
# Longer texts would have very many keys for `ties`, and like texts of such length share runs of
# words, which tie them anyway.
_LONGEST_TIED = 256
# Words are counted by the low 20 bits of their hash; collisions only affect speed.
_COUNTED = np.uint64((1 << 20) - 1)


class Writer:
    """Writes the words and keys of texts, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._words: BinaryIO = (folder / "words").open("wb")
        self._parts = SharedKeys(folder / "parts")
        self._counts: list[Places] = []
        self._bits: list[Ids] = []
        self._rows = 0

    def add(self, hashes: Ids, counts: Places) -> None:
        """Adds texts. hashes: of all words, shape (words,). counts: each text's words."""
        row = np.repeat(np.arange(len(counts)), counts)
        once = distinct(row, hashes)
        words, sizes = hashes[once], np.bincount(row[once], minlength=len(counts)).astype(np.int64)
        append(self._words, words)
        keys, rows = _keys(words, sizes)
        self._parts.add(keys, rows + self._rows)
        self._counts.append(sizes)
        self._bits.append(_bits(words, sizes))
        self._rows += len(sizes)

    def texts(self) -> "Texts":
        """Closes the files and returns the texts."""
        self._words.close()
        self._parts.close()
        sizes = np.concatenate([np.empty(0, np.int64), *self._counts])
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        bits = np.concatenate([np.empty(0, np.uint64), *self._bits])
        return Texts(self.folder, self._parts, starts, bits)


class Texts:
    """Compares texts by their words.

    folder: has their words, and gets their keys of rare words. parts: their keys by parts.
    starts: the index of each text's first word, and the number of words. Shape (rows + 1,).
    bits: a bit for each word of a text, shape (rows,); texts differ in at least as many words as
        bits.
    """

    def __init__(self, folder: Path, parts: SharedKeys, starts: Places, bits: Ids) -> None:
        self.folder, self.parts = folder, parts
        self.starts, self.bits = starts, bits

    def shared_with(self, flagged: Flags) -> Flags:
        """Whether each row that is not flagged is like a flagged one. Shape (rows,)."""
        hit = np.zeros(len(flagged), dtype=np.bool_)
        for keys, rows, near in self._rare_keys:
            marked = flagged[rows]
            of_key = np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)
            for candidates, targets in ((near, marked), (~near, marked & near)):
                self._mark(hit, rows, of_key, candidates & ~marked, targets)
        return hit

    def _mark(
        self, hit: Flags, rows: Places, of_key: Places, candidates: Flags, targets: Flags
    ) -> None:
        """Sets `hit` for the candidates that are like a target of the same key.

        rows, of_key, candidates, targets: an entry for each row of each key, in order of the keys.
        """
        # Each key's target rows, one after another.
        target_rows = rows[targets]
        counts = np.bincount(of_key[targets], minlength=int(of_key[-1]) + 1)
        ends = np.cumsum(counts)
        starts = ends - counts
        waiting, group = rows[candidates], of_key[candidates]
        first, width = 0, 1
        while len(waiting):
            low = starts[group] + first
            open_ = (low < ends[group]) & ~hit[waiting]
            waiting, group, low = waiting[open_], group[open_], low[open_]
            size = np.minimum(width, ends[group] - low)
            left, places = np.repeat(waiting, size), ranges(low, size)
            hit[left[self._alike(left, target_rows[places])]] = True
            # The first rounds decide most rows; later rounds compare more rows at once, in bounded
            # memory.
            first, width = first + width, max(min(2 * width, _PAIRS // max(len(waiting), 1)), 1)

    def ties(self, document_of_row: Index, documents: int, max_frequency: int) -> Index:
        """For each document, the earliest one to which like texts tie it, or itself.

        A text is compared only with the first `max_frequency` - 1 texts of each of its keys, so
        that later documents change nothing.
        """
        parent = np.arange(documents, dtype=np.int32)
        for keys, rows, _ in self.parts:
            fresh = begins(keys)
            starts = np.flatnonzero(fresh)
            of_key = np.cumsum(fresh) - 1
            nth = np.arange(len(rows)) - starts[of_key]
            for place in range(max_frequency - 1):
                later = np.flatnonzero(nth > place)
                one, other = rows[later], rows[starts[of_key[later]] + place]
                # Compare only pairs that would change a tie, each once.
                new = document_of_row[other] < parent[document_of_row[one]]
                pairs = np.unique(one[new] * len(document_of_row) + other[new])
                one, other = np.divmod(pairs, len(document_of_row))
                like = self._alike(one, other)
                np.minimum.at(parent, document_of_row[one[like]], document_of_row[other[like]])
        return parent

    @cached_property
    def _rare_keys(self) -> SharedKeys:
        """The keys of rare words."""
        counts = np.zeros(int(_COUNTED) + 1, dtype=np.int64)
        for _, words in self._pieces():
            counts += np.bincount((words & _COUNTED).astype(np.int64), minlength=len(counts))
        shared = SharedKeys(self.folder / "rare")
        for rows, words in self._pieces():
            sizes = np.diff(self.starts[rows.start : rows.stop + 1])
            row = np.repeat(np.arange(len(sizes)), sizes)
            order = np.lexsort((words, counts[(words & _COUNTED).astype(np.int64)], row))
            keys, owners, near = _rare_keys(words[order], sizes)
            shared.add(keys, owners + rows.start, near)
        shared.close()
        return shared

    def _pieces(self) -> Iterator[tuple[slice, Ids]]:
        """Consecutive slices of the rows, each with the words of its rows."""
        with (self.folder / "words").open("rb") as file:
            for rows in pieces(np.diff(self.starts), _WORDS):
                count = int(self.starts[rows.stop] - self.starts[rows.start])
                yield rows, np.fromfile(file, dtype=np.uint64, count=count)

    def _alike(self, one: Places, other: Places) -> Flags:
        """Whether each pair of rows has a Jaccard index of at least 0.8. Shape (pairs,)."""
        alike = np.zeros(len(one), dtype=np.bool_)
        both = self._size(one) + self._size(other)
        # Like texts have at most a ninth of their words unshared.
        apart = np.bitwise_count(self.bits[one] ^ self.bits[other]).astype(np.int64)
        differ = np.abs(self._size(one) - self._size(other))
        close = np.flatnonzero(9 * np.maximum(apart, differ) <= both)
        one, other, both = one[close], other[close], both[close]
        for pairs in pieces(both, _WORDS):
            shared = self._shared(one[pairs], other[pairs])
            # shared / (both - shared) >= 4/5
            alike[close[pairs]] = 9 * shared >= 4 * both[pairs]
        return alike

    def _size(self, rows: Places) -> Places:
        """The number of distinct words of each row. Shape (rows,)."""
        return np.asarray(self.starts[rows + 1] - self.starts[rows])

    def _words_of(self, rows: Places) -> Ids:
        """The words of each row, one row behind another. A mapped file would stay in memory."""
        starts = zip((8 * self.starts[rows]).tolist(), (8 * self._size(rows)).tolist(), strict=True)
        with (self.folder / "words").open("rb") as file:
            held = [os.pread(file.fileno(), size, start) for start, size in starts]
        return np.frombuffer(b"".join(held), dtype=np.uint64)

    def _shared(self, one: Places, other: Places) -> Places:
        """The number of shared words of each pair. Shape (pairs,)."""
        rows = np.concatenate([one, other])
        sizes = self._size(rows)
        pair = np.repeat(np.tile(np.arange(len(one)), 2), sizes)
        words = self._words_of(rows)
        order = np.lexsort((words, pair))
        words, pair = words[order], pair[order]
        twice = (words[1:] == words[:-1]) & (pair[1:] == pair[:-1])
        return np.bincount(pair[1:][twice], minlength=len(one))


def _bits(words: Ids, sizes: Places) -> Ids:
    """The union of one bit for each word of each text. Shape (texts,)."""
    bits = np.zeros(len(sizes), dtype=np.uint64)
    some = sizes > 0
    if some.any():
        starts = (np.cumsum(sizes) - sizes)[some]
        one = np.uint64(1) << (seeding.mix(words) >> np.uint64(58))
        bits[some] = np.bitwise_or.reduceat(one, starts)
    return bits


def _rare_keys(words: Ids, sizes: Places) -> tuple[Ids, Places, Flags]:
    """(keys, rows, near) of texts whose words are sorted, rarest first.

    near: whether at most n/8 of the text's words stand between the words of the key; if two like
    texts share a key, one of them is near.
    """
    starts = np.cumsum(sizes) - sizes
    keys, owners, nears = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for salt, (length, least, below) in enumerate(_RARE_KEYS):
        prefix = np.where((sizes >= least) & (4 * sizes < 5 * below), sizes // 5 + length, 0)
        for size in np.unique(prefix[prefix > 0]):
            rows = np.flatnonzero(prefix == size)
            chosen = np.array(list(combinations(range(int(size)), length)))
            first = words[starts[rows][:, None] + np.arange(size)]
            salted = np.full((len(rows), len(chosen)), salt, dtype=np.uint64)
            for place in range(length):
                salted = seeding.mix(salted ^ first[:, chosen[:, place]])
            between = chosen[:, -1] - (length - 1)
            keys.append(salted.ravel())
            owners.append(np.repeat(rows, len(chosen)))
            nears.append((8 * between[None, :] <= sizes[rows][:, None]).ravel())
    return np.concatenate(keys), np.concatenate(owners), np.concatenate(nears)


def _bands(largest: int) -> Places:
    """The last size of each band, up to the band that holds `largest`; bands begin at 1."""
    ends = [1]
    while ends[-1] < largest:
        ends.append(5 * (ends[-1] + 1) // 4)
    return np.array(ends, dtype=np.int64)


def _keys(words: Ids, sizes: Places) -> tuple[Ids, Places]:
    """The keys by parts, with their rows.

    sizes: distinct words of each text. Texts of none or more than `_LONGEST_TIED` have no key.
    """
    short = sizes <= _LONGEST_TIED
    words, sizes = words[np.repeat(short, sizes)], np.where(short, sizes, 0)
    bands = _bands(int(sizes.max(initial=1)))
    bands = np.append(bands, 5 * (bands[-1] + 1) // 4)
    keys, rows = [], []
    for step in (0, 1):
        level = np.searchsorted(bands, sizes) + step
        parts = np.where(sizes > 0, 2 * bands[level] // 9 + 1, 0)
        starts = np.cumsum(parts) - parts
        row = np.repeat(np.arange(len(sizes)), sizes)
        salted = seeding.mix(words ^ seeding.mix(level.astype(np.uint64))[row])
        part = (salted % parts[row].astype(np.uint64)).astype(np.int64)
        sums = np.zeros(parts.sum(), dtype=np.uint64)
        np.add.at(sums, starts[row] + part, seeding.mix(salted))
        of_part = np.repeat(np.arange(len(sizes)), parts)
        number = np.arange(len(sums)) - starts[of_part]
        place = (level[of_part].astype(np.uint64) << np.uint64(32)) + number.astype(np.uint64)
        keys.append(seeding.mix(sums ^ seeding.mix(place)))
        rows.append(of_part)
    return np.concatenate(keys), np.concatenate(rows)
