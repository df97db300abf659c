"""Finds anchors among training sentences by seeded draws on their ids, without a list; and queries
to passages in tables of both.

The stage `sample` sets a threshold for each corpus: a sentence of fitting length, in a document
with enough sentences, is an anchor if its draw is at most the threshold.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.storage.rows import Rows

Flags: TypeAlias = npt.NDArray[np.bool_]

ANCHOR_COLUMNS = ("sentence_id", "corpus", "doc_id", "n_words", "split")


def anchor_mask(sentences: pa.Table, anchors: pa.Table, seed: int) -> Flags:
    """Whether each sentence is an anchor. Shape (rows,).

    Args:
        sentences: whole documents, with `ANCHOR_COLUMNS`.
        anchors: the table `anchors`; a corpus without a row has no anchors.
        seed: the recipe's.
    """
    corpus = sentences["corpus"].to_numpy()
    draw = anchor_draws(sentences, seed)
    mask = np.zeros(len(sentences), dtype=np.bool_)
    for row in anchors.to_pylist():
        fits = eligible(sentences, row["min_words"], row["max_words"], row["company"])
        mask |= (corpus == row["corpus"]) & fits & (draw <= np.uint64(row["threshold"]))
    return mask


def eligible(sentences: pa.Table, min_words: int, max_words: int, context: int) -> Flags:
    """Whether each sentence is a training sentence of fitting length, with at least `context` other
    training sentences in its document. sentences: whole documents."""
    words = sentences["n_words"].to_numpy()
    fits = (words >= min_words) & (words <= max_words)
    train = sentences["split"].to_numpy() == "train"
    if context:
        docs = sentences["doc_id"].to_numpy()
        _, of, counts = np.unique(docs[train], return_inverse=True, return_counts=True)
        fits[train] &= counts[of] > context
    return np.asarray(fits & train)


def anchor_draws(sentences: pa.Table, seed: int) -> seeding.Ids:
    """The draw that decides whether each sentence is an anchor. Shape (rows,)."""
    return seeding.draws(seed, "anchor", sentences["sentence_id"].to_numpy())


# SQL for a query's digest, without regard to case, spacing and marks at its end.
QUERY_ID = r"""md5_number_lower(regexp_replace(
    regexp_replace(lower(trim(anchor)), '\s+', ' ', 'g'), '[\s.?!:]+$', ''))"""


def is_query(passages: Rows) -> str:
    """An SQL condition: a row of `candidates` or `triplets` is a query with its passage.

    Its sentence_id is then a passage_id. A sentence that is a whole passage without a context has
    the same id, but its rows have the sentence itself as the anchor.
    """
    return f"""(sentence_id IN (SELECT passage_id FROM {passages.sql("passages")})
        AND coalesce(md5_number_lower(anchor) <> sentence_id, FALSE))"""
