"""Train, dev and test: disjoint by document, near-duplicates on one side, no shared 8-gram.

Texts are compared by their *marks*: the hashes of their normalised word 8-grams, within a sentence
and across the sentences of one paragraph, or of the whole normalised text of a shorter sentence.

1. *Clusters.* A document follows the earliest document with which it shares a rare mark; the first
   of such a chain leads the cluster, which goes whole to the split that a seeded draw on the
   leader's id gives. "Rare" is decided in input order: a mark ties its first few documents. So
   neither tie nor split of a document ever depends on documents behind it, and a corpus that
   grows at its end keeps the splits it had. (Connected components would not: one new document
   that bridges two of them moves old ones.) A cluster that swallows a good part of the corpus is
   common phrasing, no family of copies, and goes to train.
2. *Exclusion.* What then still shares a mark across splits (common phrasing, or a document tied to
   two clusters) is rejected: from dev what it shares with test, from train what it shares with
   test or dev. This step alone is the guarantee; the first keeps its price low.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids

Index: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]

GRAM = 8
SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
SMALL_CLUSTER = 200  # documents; a cluster of fewer is never too large

_MULTIPLIER = 0x9E3779B97F4A7C15
_POWERS = np.array([pow(_MULTIPLIER, j, 1 << 64) for j in range(GRAM)], dtype=np.uint64)
_NO_WORD = r"[^\p{L}\p{M}\p{N}]+"


def normalised(texts: pa.Array) -> pa.Array:
    """The texts' words in lower case, one space apart: letters, their accents and digits."""
    spaced = pc.replace_substring_regex(pc.utf8_lower(texts), _NO_WORD, " ")
    return pc.utf8_trim_whitespace(spaced)


def marks(texts: Sequence[str] | pa.Array, paragraphs: Index) -> tuple[Ids, Index]:
    """Marks of texts, each with the row in which it begins, in order of rows.

    Args:
        texts: sentences in order, shape (rows,).
        paragraphs: a number for each row; neighbours of equal number are one paragraph, across
            whose sentences 8-grams run. Shape (rows,).
    """
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    spaced = normalised(column)
    words = pc.utf8_split_whitespace(spaced)
    counts = pc.list_value_length(words).to_numpy(zero_copy_only=False).astype(np.int64)
    coded = pc.list_flatten(words).dictionary_encode()
    distinct = seeding.text_ids(coded.dictionary.to_pylist())
    hashes = distinct[coded.indices.to_numpy()] if len(distinct) else np.empty(0, np.uint64)
    # A text without a word is split into one empty word: it has no marks.
    counts = np.where(pc.equal(spaced, "").to_numpy(zero_copy_only=False), 0, counts)
    if len(hashes) != counts.sum():
        hashes = hashes[pc.not_equal(pc.list_flatten(words), "").to_numpy(zero_copy_only=False)]
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    long_marks, long_rows = _grams(hashes, rows, paragraphs)
    short_marks, short_rows = _short_texts(hashes, rows, counts)
    found = np.concatenate([long_marks, short_marks])
    where = np.concatenate([long_rows, short_rows])
    order = np.argsort(where, kind="stable")
    return found[order], where[order]


def _grams(hashes: Ids, rows: Index, paragraphs: Index) -> tuple[Ids, Index]:
    count = len(hashes) - GRAM + 1
    if count <= 0:
        return np.empty(0, np.uint64), np.empty(0, np.int32)
    total = np.zeros(count, dtype=np.uint64)
    for j in range(GRAM):
        total += hashes[j : j + count] * _POWERS[j]
    # Equal numbers apart (a, b, a) are not one paragraph: count the changes instead.
    runs = np.cumsum(np.diff(paragraphs, prepend=paragraphs[:1]) != 0)[rows]
    within = runs[:count] == runs[GRAM - 1 :]
    return seeding.mix(total[within]), rows[:count][within]


def _short_texts(hashes: Ids, rows: Index, counts: npt.NDArray[np.int64]) -> tuple[Ids, Index]:
    short = np.flatnonzero((counts > 0) & (counts < GRAM)).astype(np.int32)
    if not len(short):
        return np.empty(0, np.uint64), short
    starts = np.cumsum(counts) - counts
    place = np.arange(len(rows)) - starts[rows]
    chosen = (counts[rows] > 0) & (counts[rows] < GRAM)
    parts = hashes[chosen] * _POWERS[place[chosen]]
    ends = np.cumsum(counts[short])
    sums = np.add.reduceat(parts, ends - counts[short])
    return seeding.mix(sums + counts[short].astype(np.uint64)), short


def shared_words(texts: pa.Array, known: Ids) -> tuple[Index, list[str]]:
    """Rows of single texts that share a mark with `known`, and the words of the first of these.

    known: marks, sorted.
    """
    found, rows = marks(texts, np.arange(len(texts), dtype=np.int32))
    if not len(known) or not len(found):
        return np.empty(0, np.int32), []
    places = np.searchsorted(known, found).clip(max=len(known) - 1)
    hits = np.flatnonzero(known[places] == found)
    hit_rows, first = np.unique(rows[hits], return_index=True)
    # A text's 8-grams come in order, one a word: the place of a mark is that of its first word.
    starts = hits[first] - np.searchsorted(rows, hit_rows)
    words = normalised(texts.take(pa.array(hit_rows))).to_pylist()
    return hit_rows, [
        " ".join(text.split()[start : start + GRAM])
        for text, start in zip(words, starts.tolist(), strict=True)
    ]


class SharedMarks:
    """The marks that stand in more than one row, grouped; all others bind nothing and are dropped.

    found, rows: marks and the rows in which they begin, as `marks` gives them, rows ascending.
    """

    def __init__(self, found: Ids, rows: Index) -> None:
        order = np.argsort(found, kind="stable")
        ordered, self.rows = found[order], rows[order]
        del order
        same = ordered[1:] == ordered[:-1]
        again = np.zeros(len(ordered), dtype=np.bool_)
        again[1:] |= same
        again[:-1] |= same
        ordered, self.rows = ordered[again], self.rows[again]
        fresh = np.ones(len(ordered), dtype=np.bool_)
        fresh[1:] = ordered[1:] != ordered[:-1]
        self.starts = np.flatnonzero(fresh)
        self.group = np.cumsum(fresh, dtype=np.int64) - 1

    def shared_with(self, flagged: Flags) -> Flags:
        """Rows that share a mark with a flagged row (flagged ones among them). Shape (rows,)."""
        hit = np.zeros(len(flagged), dtype=np.bool_)
        if len(self.starts):
            groups = np.logical_or.reduceat(flagged[self.rows], self.starts)
            hit[self.rows[groups[self.group]]] = True
        return hit

    def leaders(self, document_of_row: Index, documents: int, rare: int) -> Index:
        """For each document the first one of its cluster, itself if it follows none.

        Args:
            document_of_row: number of each row's document, ascending. Shape (rows,).
            documents: how many there are.
            rare: a mark ties the first so many documents that hold it.
        """
        parent = np.arange(documents, dtype=np.int32)
        if not len(self.starts):
            return parent
        documents_held = document_of_row[self.rows]
        new = np.ones(len(self.rows), dtype=np.bool_)
        new[1:] = (np.diff(documents_held) != 0) | (np.diff(self.group) != 0)
        # How many documents of its group come before an entry's own.
        running = np.cumsum(new)
        nth = np.asarray(running - running[self.starts][self.group], dtype=np.int64)
        first = documents_held[self.starts][self.group]
        ties = nth < rare
        np.minimum.at(parent, documents_held[ties], first[ties])
        while not np.array_equal(parent, parent[parent]):
            parent = parent[parent]
        return parent


def assign(
    leader: Index, document_ids: Ids, seed: int, dev: float, test: float, largest: float
) -> Codes:
    """The split of each document, by a draw on its leader's id. Shape (documents,).

    Args:
        dev, test: expected fractions of clusters, summing to less than 1.
        largest: a cluster of more than this fraction of all documents goes to train.
    """
    draw = seeding.uniforms(seed, "split", document_ids[leader])
    split = np.where(draw < test, TEST, np.where(draw < test + dev, DEV, TRAIN)).astype(np.int8)
    sizes = np.bincount(leader, minlength=len(leader))[leader]
    split[sizes > max(SMALL_CLUSTER, largest * len(leader))] = TRAIN
    return split


def excluded(shared: SharedMarks, split_of_row: Codes, kept: Flags) -> tuple[Flags, Flags]:
    """Rows to reject: (of dev or train, sharing with test; of train, sharing with dev).

    Args:
        split_of_row: shape (rows,).
        kept: rows that stand so far; the others neither count as test or dev text nor matter.
    """
    with_test = shared.shared_with(kept & (split_of_row == TEST)) & (split_of_row != TEST)
    dev_text = kept & (split_of_row == DEV) & ~with_test
    with_dev = shared.shared_with(dev_text) & (split_of_row == TRAIN) & ~with_test
    return with_test, with_dev
