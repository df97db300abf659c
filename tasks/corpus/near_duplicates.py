"""Texts with nearly the same words: a Jaccard index of at least 0.8.

Each text is the set of its words (as `shingles` normalises them), whatever their order. A text has
keys, and only texts that share a key are compared, word by word. There are two sets of keys, and
with either no pair of like texts is missed.

*Parts*, for `ties`: the partition of Arasu, Ganti and Kaushik (VLDB 2006, section 4). Two so like
sets of at most r words differ in at most 2r/9 words; put into one more part than that by a hash of
each word, some part is the same in both. Sizes fall into bands so that like texts lie in the same
band or in neighbouring ones; a text has the keys of its own band and of the next. These keys depend
on the text alone. Parts of common words are shared by many, so only the first few texts of a key
can be looked at, and texts of more than 256 words have none.

*Rare words*, for `shared_with`, which looks at all texts of a key: the prefix filter of Chaudhuri,
Ganti and Kaushik (ICDE 2006), with several words a key (AdaptJoin: Wang, Li and Feng, SIGMOD 2012).
Let the words of each text be in one order, the rarest of the corpus first. A text of n words shares
at least 4n/5 with each text like it, so the first l words that the two share are among the first
n/5 + l of either, and these l words make a key. Words that a text has between those are not shared;
two like texts have at most a ninth of all their words unshared, so that one of the two has at most
n/8 of them there. Texts that have more are not compared with each other.

Words and keys lie in files, keys parted by their value. In memory stay 16 bytes a text and one file
of keys at a time.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.runs import begins, distinct, pieces, ranges, repeats
from tercet.models.seeding import Ids

Places: TypeAlias = npt.NDArray[np.int64]
Index: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

FILES = 64  # of keys
_ENTRY = np.dtype([("key", np.uint64), ("row", np.uint32), ("near", np.bool_)])
# Words, and pairs of texts, that are looked at together.
_WORDS = 1 << 19
_PAIRS = 1 << 20
# (words of a key, from and below how many words the smaller of two like texts has such keys): the
# more words, the fewer texts share a key, and the more keys has a text.
_RARE_KEYS = ((1, 1, 2), (2, 2, 3), (3, 3, 24), (2, 24, 96), (1, 96, 1 << 40))
# Longer texts are not compared for `ties`: they would have a key for every few words, and texts so
# long and so alike share runs of words, which tie them already.
_LONGEST_TIED = 256
# Words are counted by so many of their bits: which are rare decides the cost, not the result.
_COUNTED = np.uint64((1 << 20) - 1)


class Writer:
    """Writes the words and keys of texts, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._words: BinaryIO = (folder / "words").open("wb")
        self._keys = _open(folder, "parts")
        self._counts: list[Places] = []
        self._bits: list[Ids] = []
        self._rows = 0

    def add(self, hashes: Ids, counts: Places) -> None:
        """The next texts. hashes: of all words, shape (words,). counts: words of each."""
        row = np.repeat(np.arange(len(counts)), counts)
        once = distinct(row, hashes)
        words, sizes = hashes[once], np.bincount(row[once], minlength=len(counts)).astype(np.int64)
        words.tofile(self._words)
        keys, rows = _keys(words, sizes)
        _write(self._keys, keys, rows + self._rows, np.ones(len(keys), dtype=np.bool_))
        self._counts.append(sizes)
        self._bits.append(_bits(words, sizes))
        self._rows += len(sizes)

    def texts(self) -> "Texts":
        """What was written; closes the files."""
        for file in (self._words, *self._keys):
            file.close()
        sizes = np.concatenate([np.empty(0, np.int64), *self._counts])
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Texts(self.folder, starts, np.concatenate([np.empty(0, np.uint64), *self._bits]))


class Texts:
    """The texts by their words: which resemble which.

    starts: where the words of each text begin, and the end. Shape (rows + 1,).
    bits: a text's words as set bits; two texts differ in at least as many words as bits. (rows,)
    """

    def __init__(self, folder: Path, starts: Places, bits: Ids) -> None:
        self.folder = folder
        self.starts, self.bits = starts, bits
        path = folder / "words"
        empty = path.stat().st_size == 0
        self.words: Ids = (
            np.empty(0, np.uint64) if empty else np.memmap(path, dtype=np.uint64, mode="r")
        )

    def shared_with(self, flagged: Flags) -> Flags:
        """Rows that are like a flagged one, flagged ones aside. Shape (rows,)."""
        hit = np.zeros(len(flagged), dtype=np.bool_)
        for keys, rows, near in self._groups(self._rare_keys):
            marked = flagged[rows]
            of_key = np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)
            for asked, answering in ((near, marked), (~near, marked & near)):
                asked = asked & ~marked
                self._ask(hit, rows, of_key, asked, answering)
        return hit

    def _ask(
        self, hit: Flags, rows: Places, of_key: Places, asked: Flags, answering: Flags
    ) -> None:
        """Shingles in `hit` the asked rows that are like an answering one of the same key.

        rows, of_key, asked, answering: an entry for each row of each key, in order of the keys.
        """
        # Each key's answering rows, one after another.
        known = rows[answering]
        counts = np.bincount(of_key[answering], minlength=int(of_key[-1]) + 1)
        ends = np.cumsum(counts)
        at = ends - counts
        asking, group = rows[asked], of_key[asked]
        first, width = 0, 1
        while len(asking):
            low = at[group] + first
            open_ = (low < ends[group]) & ~hit[asking]
            asking, group, low = asking[open_], group[open_], low[open_]
            size = np.minimum(width, ends[group] - low)
            left, places = np.repeat(asking, size), ranges(low, size)
            hit[left[self._alike(left, known[places])]] = True
            # Ever more at once, in bounded memory: most rows are decided in the first few rounds.
            first, width = first + width, max(min(2 * width, _PAIRS // max(len(asking), 1)), 1)

    def ties(self, document_of_row: Index, documents: int, max_frequency: int) -> Index:
        """For each document the earliest one that it is tied to by like texts, or itself.

        A text is compared with the first `max_frequency` - 1 texts of each of its keys alone: what
        comes later in the corpus changes nothing.
        """
        parent = np.arange(documents, dtype=np.int32)
        for keys, rows, _ in self._groups("parts"):
            fresh = begins(keys)
            starts = np.flatnonzero(fresh)
            of_key = np.cumsum(fresh) - 1
            nth = np.arange(len(rows)) - starts[of_key]
            for place in range(max_frequency - 1):
                later = np.flatnonzero(nth > place)
                one, other = rows[later], rows[starts[of_key[later]] + place]
                # Only what would change a tie is looked at, and each pair once.
                new = document_of_row[other] < parent[document_of_row[one]]
                pairs = np.unique(one[new] * len(document_of_row) + other[new])
                one, other = np.divmod(pairs, len(document_of_row))
                like = self._alike(one, other)
                np.minimum.at(parent, document_of_row[one[like]], document_of_row[other[like]])
        return parent

    @cached_property
    def _rare_keys(self) -> str:
        """The files' name of the keys of rare words, which are written when first asked for."""
        name = "rare"
        counts = np.zeros(int(_COUNTED) + 1, dtype=np.int64)
        for rows in pieces(np.diff(self.starts), _WORDS):
            words = self.words[self.starts[rows.start] : self.starts[rows.stop]]
            counts += np.bincount((words & _COUNTED).astype(np.int64), minlength=len(counts))
        files = _open(self.folder, name)
        for rows in pieces(np.diff(self.starts), _WORDS):
            starts = self.starts[rows.start : rows.stop + 1]
            words, sizes = self.words[starts[0] : starts[-1]], np.diff(starts)
            row = np.repeat(np.arange(len(sizes)), sizes)
            order = np.lexsort((words, counts[(words & _COUNTED).astype(np.int64)], row))
            for keys, owners, near in _rare_keys(words[order], sizes):
                _write(files, keys, owners + rows.start, near)
        for file in files:
            file.close()
        return name

    def _groups(self, name: str) -> Iterator[tuple[Ids, Places, Flags]]:
        """(keys, rows, near) of the keys that several rows have, by key and row, file by file."""
        for number in range(FILES):
            entries = np.fromfile(self.folder / f"{name}-{number:02d}", dtype=_ENTRY)
            order = np.lexsort((entries["row"], entries["key"]))
            entries = entries[order]
            found = entries[repeats(entries["key"])]
            if len(found):
                yield found["key"], found["row"].astype(np.int64), found["near"]

    def _alike(self, one: Places, other: Places) -> Flags:
        """Whether each pair of rows has a Jaccard index of at least 0.8. Shape (pairs,)."""
        alike = np.zeros(len(one), dtype=np.bool_)
        both = self._size(one) + self._size(other)
        # Of all words of like texts at most a ninth is not shared.
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
        """How many distinct words the rows have. Shape (rows,)."""
        return np.asarray(self.starts[rows + 1] - self.starts[rows])

    def _shared(self, one: Places, other: Places) -> Places:
        """How many words the rows of each pair have in common. Shape (pairs,)."""
        rows = np.concatenate([one, other])
        sizes = self._size(rows)
        pair = np.repeat(np.tile(np.arange(len(one)), 2), sizes)
        words = self.words[ranges(self.starts[rows], sizes)]
        order = np.lexsort((words, pair))
        words, pair = words[order], pair[order]
        twice = (words[1:] == words[:-1]) & (pair[1:] == pair[:-1])
        return np.bincount(pair[1:][twice], minlength=len(one))


def _bits(words: Ids, sizes: Places) -> Ids:
    """Of each text the bits that its words stand for, one a word. Shape (texts,)."""
    found = np.zeros(len(sizes), dtype=np.uint64)
    some = sizes > 0
    if some.any():
        starts = (np.cumsum(sizes) - sizes)[some]
        one = np.uint64(1) << (seeding.mix(words) >> np.uint64(58))
        found[some] = np.bitwise_or.reduceat(one, starts)
    return found


def _open(folder: Path, name: str) -> list[BinaryIO]:
    return [(folder / f"{name}-{number:02d}").open("wb") for number in range(FILES)]


def _write(files: list[BinaryIO], keys: Ids, rows: Places, near: Flags) -> None:
    """Adds each key to the file of its upper six bits."""
    entries = np.empty(len(keys), dtype=_ENTRY)
    entries["key"], entries["row"], entries["near"] = keys, rows, near
    file = (keys >> np.uint64(58)).astype(np.uint8)
    order = np.argsort(file, kind="stable")
    ends = np.searchsorted(file[order], np.arange(FILES + 1))
    for number, target in enumerate(files):
        entries[order[ends[number] : ends[number + 1]]].tofile(target)


def _rare_keys(words: Ids, sizes: Places) -> Iterator[tuple[Ids, Places, Flags]]:
    """(keys, rows, near) of texts whose words come rarest first.

    near: whether so few of the text's words stand between those of the key that any like text may
    have it; two texts that share a key and are not near are not alike.
    """
    starts = np.cumsum(sizes) - sizes
    for salt, (length, least, below) in enumerate(_RARE_KEYS):
        prefix = np.where((sizes >= least) & (4 * sizes < 5 * below), sizes // 5 + length, 0)
        for size in np.unique(prefix[prefix > 0]):
            rows = np.flatnonzero(prefix == size)
            chosen = np.array(list(combinations(range(int(size)), length)))
            first = words[starts[rows][:, None] + np.arange(size)]
            keys = np.full((len(rows), len(chosen)), salt, dtype=np.uint64)
            for place in range(length):
                keys = seeding.mix(keys ^ first[:, chosen[:, place]])
            between = chosen[:, -1] - (length - 1)
            near = 8 * between[None, :] <= sizes[rows][:, None]
            yield keys.ravel(), np.repeat(rows, len(chosen)), near.ravel()


def _bands(largest: int) -> Places:
    """The last size of each band up to the one that holds `largest`; bands begin at 1."""
    ends = [1]
    while ends[-1] < largest:
        ends.append(5 * (ends[-1] + 1) // 4)
    return np.array(ends, dtype=np.int64)


def _keys(words: Ids, sizes: Places) -> tuple[Ids, Places]:
    """Keys of the texts, with their rows.

    sizes: distinct words of each. Texts of none and of more than `_LONGEST_TIED` have no key.
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
