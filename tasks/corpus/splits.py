"""Train, dev and test: disjoint by document, near-duplicates on one side, no shared 8-gram.

Texts are compared by their *shingles* (`models/text/shingles.py`), the hashes of their word
8-grams, and as sets of words (`near_duplicates.py`), which finds copies with a few changed words.

1. *Clusters.* A document follows the earliest document with which it shares a rare shingle or a
   nearly equal text. The first document of such a chain leads the cluster, and a seeded draw on its
   id decides the split of the whole cluster. "Rare" is decided in input order: a shingle ties only
   its first few documents, and a text is compared only with the first few candidates. So ties and
   splits never depend on later documents, and a corpus that grows at its end keeps its splits.
   (Connected components would not: a new document that connects two of them moves old documents.)
   The documents of one file follow its first, so that a page stays whole, unless the file is a
   book: one with a tenth of all documents, or with more than a cluster may have. A cluster with a
   large part of the corpus comes from common phrasing, not from copies, and goes to train.
2. *Exclusion.* Texts that still share a shingle or are nearly equal across splits (common phrasing,
   or a document tied to two clusters) are rejected: from dev if they share with test, from train if
   they share with test or dev. This step alone gives the guarantee; the first keeps its cost low.

Growth can only change which clusters of more than 200 documents are too large, which files are
books, and which phrases are set phrases, which `gather.py` removes from the texts before.

Splits depend on the documents that exist: if the first of a cluster is deleted, the next one draws
for the others. `keep` leaves documents of an earlier version where they were, and texts that
resemble them follow; the exclusion gives the same guarantee.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.runs import begins
from tercet.models.seeding import Ids
from tercet.tasks.corpus.shared_keys import Flags, Group

Index: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.int8]

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
SMALL_CLUSTER = 200  # documents; a cluster of fewer is never too large
LARGE_FILE = 0.1  # of all documents; one as large is divided


class SharedShingles:
    """The shingles that occur in more than one row.

    shared: these shingles and the rows in which they begin, as `SharedKeys` has them.
    """

    def __init__(self, shared: Iterable[Group]) -> None:
        self.shared = shared

    def shared_with(self, flagged: Flags) -> Flags:
        """Whether each row shares a shingle with a flagged row or itself. Shape (rows,)."""
        hit = np.zeros(len(flagged), dtype=np.bool_)
        for keys, rows, _ in self.shared:
            fresh = begins(keys)
            groups = np.logical_or.reduceat(flagged[rows], np.flatnonzero(fresh))
            hit[rows[groups[np.cumsum(fresh) - 1]]] = True
        return hit

    def ties(self, document_of_row: Index, documents: int, max_frequency: int) -> Index:
        """For each document, the earliest one with which it shares a rare shingle, or itself.

        Args:
            document_of_row: number of each row's document, ascending. Shape (rows,).
            documents: their number.
            max_frequency: the number of documents that a shingle ties, the first that hold it.
        """
        parent = np.arange(documents, dtype=np.int32)
        for keys, rows, _ in self.shared:
            fresh = begins(keys)
            starts, group = np.flatnonzero(fresh), np.cumsum(fresh) - 1
            holders = document_of_row[rows]
            # The number of earlier documents in an entry's group.
            running = np.cumsum(begins(holders, group))
            ties = running - running[starts][group] < max_frequency
            np.minimum.at(parent, holders[ties], holders[starts][group][ties])
        return parent


def whole_files(file_of_document: Index, largest: float) -> Index:
    """For each document, the first of its file; itself if the file is to be divided.

    Args:
        file_of_document: the number of the first document of each one's file. Shape (documents,).
        largest: as in `assign`.
    """
    documents = len(file_of_document)
    sizes = np.bincount(file_of_document, minlength=documents)[file_of_document]
    divided = (sizes >= LARGE_FILE * documents) | too_large(file_of_document, largest)
    return np.where(divided, np.arange(documents, dtype=np.int32), file_of_document)


def leaders(*ties: Index, first: Index | None = None) -> Index:
    """For each document, the first of its cluster.

    ties: for each kind of tie and each document, the earlier document that it follows, or itself.
    first: for each document, the first of its file, which replaces ties; itself if there is none.
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
    """The split of each document: its former one, else the former one of the first such document in
    its cluster, else the assigned one. Shape (documents,).

    former: -1 for new documents.
    """
    old = np.flatnonzero(former >= 0)[::-1]
    of_cluster = np.full(len(split), -1, dtype=np.int8)
    of_cluster[leader[old]] = former[old]  # the first is written last
    followed = of_cluster[leader]
    kept: Codes = np.where(former >= 0, former, np.where(followed >= 0, followed, split))
    return kept


def too_large(leader: Index, largest: float) -> Flags:
    """Whether each document's cluster is so large that it goes to train. Shape (documents,)."""
    sizes = np.bincount(leader, minlength=len(leader))[leader]
    return np.asarray(sizes > max(SMALL_CLUSTER, largest * len(leader)))


def excluded(
    shared_with: Callable[[Flags], Flags], split_of_row: Codes, kept: Flags
) -> tuple[Flags, Flags]:
    """Rows to reject: (dev and train rows that share with test, train rows that share with dev).

    Args:
        shared_with: flags the rows that share something with flagged rows.
        split_of_row: shape (rows,).
        kept: rows that are not rejected yet; rejected rows do not count as text of test or dev.
    """
    with_test = shared_with(kept & (split_of_row == TEST)) & (split_of_row != TEST)
    dev_text = kept & (split_of_row == DEV) & ~with_test
    with_dev = shared_with(dev_text) & (split_of_row == TRAIN) & ~with_test
    return with_test, with_dev
