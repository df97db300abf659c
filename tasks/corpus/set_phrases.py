"""Set phrases: runs of eight words that very many documents have, such as a letter's opening.

They say nothing of what a document is about, so that they tie no documents and keep none out of
train. A run that begins or ends in one is no text of its own either: the words of set phrases are
taken out before texts are compared. A text that has fewer than eight words besides is compared
with all its words as a set, so that texts that differ in a number alone stay near-duplicates.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.runs import begins
from tercet.models.seeding import Ids
from tercet.models.text.shingles import GRAM, Places, grams

Index = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

# The words of texts as hashes, shape (words,), and how many each text has, shape (texts,).
Words: TypeAlias = tuple[Ids, Places]

LEAST = 20  # documents; what fewer share is no set phrase, in however small a corpus


def set_phrases(shingles: Ids, document_of_shingle: Index, documents: int, share: float) -> Ids:
    """The shingles in more than this share of the documents, and in more than `LEAST`; sorted.

    document_of_shingle: ascending. Shape (shingles,).
    """
    least = max(LEAST, int(share * documents))
    if len(shingles) <= least:
        return np.empty(0, np.uint64)
    order = np.argsort(shingles, kind="stable")
    ordered, holders = shingles[order], document_of_shingle[order]
    starts = np.flatnonzero(begins(ordered))
    held = np.add.reduceat(begins(ordered, holders).astype(np.int32), starts)
    return ordered[starts[held > least]]


def without(phrases: Ids, hashes: Ids, counts: Places, paragraphs: Index) -> tuple[Words, Words]:
    """The words of texts without those of set phrases: to be compared by runs, and as sets.

    Args:
        phrases: shingles, as `set_phrases` gives them.
        hashes, counts: the texts' words, as `word_hashes` gives them.
        paragraphs: of each text, as for `shingles`.
    """
    if not len(phrases) or len(hashes) < GRAM:
        return (hashes, counts), (hashes, counts)
    text = np.repeat(np.arange(len(counts)), counts)
    paragraph = np.cumsum(np.diff(paragraphs, prepend=paragraphs[:1]) != 0)
    found, first = grams(hashes, paragraph[text], GRAM)
    begins = first[np.isin(found, phrases)]
    change = np.zeros(len(hashes) + 1, dtype=np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + GRAM, -1)
    own = np.cumsum(change[:-1]) == 0
    left = np.bincount(text[own], minlength=len(counts))
    # What is left of such a text is too short to be a run, and no whole text either.
    few = (left < counts) & (left < GRAM)
    in_runs, in_sets = own & ~few[text], own | few[text]
    return (
        (hashes[in_runs], np.bincount(text[in_runs], minlength=len(counts))),
        (hashes[in_sets], np.bincount(text[in_sets], minlength=len(counts))),
    )


def without_texts(left_out: Flags, hashes: Ids, counts: Places) -> Words:
    """The words of texts without those of some. left_out: shape (texts,)."""
    return hashes[np.repeat(~left_out, counts)], np.where(left_out, 0, counts)
