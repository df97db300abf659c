"""Random negatives: for each anchor, one sentence from another document."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.models.config import Config
from tercet.models.generation import Method, MethodInput, Output, methods


def random_sentence(inputs: MethodInput, params: Config, seed: int) -> pa.Table:
    """For each anchor, the first sentence of another document after its draw on the ring of all
    anchors."""
    if inputs.pool is None:
        raise ValueError("the method 'random' needs the pool of anchors")
    pool, ids = inputs.pool, inputs.ids()
    size = len(pool.ring)
    if not size or not len(ids):
        return Output().table()
    docs = inputs.column("doc_id")
    at = seeding.ring_start(pool.ring, seed, "random", ids)
    same = pool.doc_ids[at] == docs
    at = np.where(same, _next_document(pool.doc_ids)[at], at)
    elsewhere = pool.doc_ids[at] != docs
    output = Output()
    for sentence_id, text in zip(
        ids[elsewhere].tolist(), pool.texts(pool.sentence_ids[at[elsewhere]]), strict=True
    ):
        output.add(sentence_id, text, "random")
    return output.table()


def _next_document(doc_ids: seeding.Ids) -> npt.NDArray[np.int64]:
    """For each place of the ring, the next place of another document, else the place itself."""
    size = len(doc_ids)
    ends = np.flatnonzero(doc_ids != np.roll(doc_ids, -1))
    if not len(ends):
        return np.arange(size)
    at = np.searchsorted(ends, np.arange(size))
    return np.asarray((ends[at % len(ends)] + 1) % size, dtype=np.int64)


METHODS = methods(
    Method("random", "negative", "other", random_sentence, Config, ("pool",), languages=())
)
