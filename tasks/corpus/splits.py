"""Train, dev and test: disjoint by document, near-duplicates on one side, no shared 8-gram.

Texts are compared by their *shingles* (`models/text/shingles.py`), the hashes of their word
8-grams, and by the set of their words (`near_duplicates.py`), which finds copies that differ in a
word here and there.

1. *Clusters.* A document follows the earliest document with which it shares a rare shingle or that
   has a like text; the first of such a chain leads the cluster, which goes whole to the split that
   a seeded draw on the leader's id gives. "Rare" is decided in input order: a shingle ties its
   first few documents, and a text is compared with the first few that it may be like. So neither
   tie nor split of a document ever depends on documents behind it, and a corpus that grows at its
   end keeps the splits it had. (Connected components would not: one new document that bridges two
   of them moves old ones.) The documents of one file follow its first, whatever else they share,
   so that a page stays whole; but not those of a book, a file with a tenth of all documents or as
   many as a cluster may not have. A cluster that swallows a good part of the corpus is common
   phrasing, not a family of copies, and goes to train: one thing that growth can change, for
   clusters of more than 200 documents.
2. *Exclusion.* What then still shares a shingle or is alike across splits (common phrasing, or a
   document tied to two clusters) is rejected: from dev what it shares with test, from train what it
   shares with test or dev. This step alone is the guarantee; the first keeps its price low.

Where a document goes follows from the documents there are: if the first of a cluster is deleted,
the next one draws for the others. `keep` leaves the documents of an earlier version where they
were, and what resembles them follows; the exclusion guarantees the same.

Set phrases, which very many documents have, are taken out of the texts before (`gather.py`):
which phrases those are is another thing that growth can change, and which files are books.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.runs import begins, repeats
from tercet.models.seeding import Ids

Index: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
SMALL_CLUSTER = 200  # documents; a cluster of fewer is never too large
LARGE_FILE = 0.1  # of all documents; one as large is divided


class SharedShingles:
    """The shingles that occur in more than one row, grouped; the others tie nothing.

    found, rows: shingles and the rows in which they begin, as `shingles` gives them, ascending.
    """

    def __init__(self, found: Ids, rows: Index) -> None:
        order = np.argsort(found, kind="stable")
        ordered, self.rows = found[order], rows[order]
        del order
        again = repeats(ordered)
        ordered, self.rows = ordered[again], self.rows[again]
        fresh = begins(ordered)
        self.starts = np.flatnonzero(fresh)
        self.group = np.cumsum(fresh, dtype=np.int64) - 1

    def shared_with(self, flagged: Flags) -> Flags:
        """Rows that share a shingle with a flagged row, flagged ones among them. Shape (rows,)."""
        hit = np.zeros(len(flagged), dtype=np.bool_)
        if len(self.starts):
            groups = np.logical_or.reduceat(flagged[self.rows], self.starts)
            hit[self.rows[groups[self.group]]] = True
        return hit

    def ties(self, document_of_row: Index, documents: int, max_frequency: int) -> Index:
        """For each document the earliest one that it shares a rare shingle with, or itself.

        Args:
            document_of_row: number of each row's document, ascending. Shape (rows,).
            documents: how many there are.
            max_frequency: a shingle ties the first so many documents that hold it.
        """
        parent = np.arange(documents, dtype=np.int32)
        if not len(self.starts):
            return parent
        documents_held = document_of_row[self.rows]
        # How many documents of its group come before an entry's own.
        running = np.cumsum(begins(documents_held, self.group))
        nth = np.asarray(running - running[self.starts][self.group], dtype=np.int64)
        first = documents_held[self.starts][self.group]
        ties = nth < max_frequency
        np.minimum.at(parent, documents_held[ties], first[ties])
        return parent


def whole_files(file_of_document: Index, largest: float) -> Index:
    """For each document the first of its file; itself where the file is to be divided.

    Args:
        file_of_document: the number of the first document of each one's file. Shape (documents,).
        largest: as in `assign`.
    """
    documents = len(file_of_document)
    sizes = np.bincount(file_of_document, minlength=documents)[file_of_document]
    divided = (sizes >= LARGE_FILE * documents) | too_large(file_of_document, largest)
    return np.where(divided, np.arange(documents, dtype=np.int32), file_of_document)


def leaders(*ties: Index, first: Index | None = None) -> Index:
    """For each document the first of its cluster, or itself if it follows none.

    ties: for each document an earlier one that it follows, or itself, by one reason or another.
    first: for each document the first of its file, which it follows and nothing else, or itself.
    """
    parent: Index = np.minimum.reduce(ties)
    if first is not None:
        parent = np.where(first == np.arange(len(first)), parent, first)
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
    split[too_large(leader, largest)] = TRAIN
    return split


def keep(split: Codes, leader: Index, former: Codes) -> Codes:
    """The split of each document: its former one, that of the first of its cluster that has one, or
    else as assigned. Shape (documents,).

    former: -1 of documents that were not there.
    """
    there = np.flatnonzero(former >= 0)[::-1]
    of_cluster = np.full(len(split), -1, dtype=np.int8)
    of_cluster[leader[there]] = former[there]  # the first, which is written last
    followed = of_cluster[leader]
    kept: Codes = np.where(former >= 0, former, np.where(followed >= 0, followed, split))
    return kept


def too_large(leader: Index, largest: float) -> Flags:
    """Whether a document's cluster goes to train for its size. Shape (documents,)."""
    sizes = np.bincount(leader, minlength=len(leader))[leader]
    return np.asarray(sizes > max(SMALL_CLUSTER, largest * len(leader)))


def excluded(
    shared_with: Callable[[Flags], Flags], split_of_row: Codes, kept: Flags
) -> tuple[Flags, Flags]:
    """Rows to reject: (of dev or train, sharing with test; of train, sharing with dev).

    shared_with: the rows that share something with the flagged ones, whatever it is.

    Args:
        split_of_row: shape (rows,).
        kept: rows that stand so far; the others neither count as test or dev text nor matter.
    """
    with_test = shared_with(kept & (split_of_row == TEST)) & (split_of_row != TEST)
    dev_text = kept & (split_of_row == DEV) & ~with_test
    with_dev = shared_with(dev_text) & (split_of_row == TRAIN) & ~with_test
    return with_test, with_dev
