"""Search by vectors: the nearest documents by cosine, exactly, in bounded memory."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tercet.models.retrieval.rankings import NONE, Places, Scores

Vectors = npt.NDArray[np.float32]

# Numbers in one block of a product: 16 MB in float32.
_BLOCK = 1 << 22


def search(queries: Vectors, documents: Iterable[Vectors], k: int) -> tuple[Places, Scores]:
    """The places of the k nearest documents of each query and their cosines, best first.

    Both of shape (queries, k); behind the last document stand `NONE` and -inf. Of equal cosines
    the smaller place comes first. Time is that of the matrix product; memory holds the queries, one
    block of documents and the result.

    queries: (n, d), vectors of length one. documents: blocks of such vectors, (any, d); their rows
        are counted through all blocks.
    Raises: ValueError where a vector is not finite.
    """
    places = np.full((len(queries), k), NONE, dtype=np.int64)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    _check_finite(queries)
    begin = 0
    for block in documents:
        _check_finite(block)
        rows = max(_BLOCK // max(len(block), 1), 1)
        for start in range(0, len(queries), rows):
            some = slice(start, start + rows)
            cosines = queries[some] @ block.T
            _keep_best(places[some], scores[some], cosines, begin)
        begin += len(block)
    return places, scores


def _keep_best(places: Places, scores: Scores, cosines: Scores, begin: int) -> None:
    """Puts what a block has to offer among the best so far, in place."""
    k = places.shape[1]
    offered = np.broadcast_to(np.arange(cosines.shape[1]), cosines.shape)
    if cosines.shape[1] > k:
        # What is nearer than the k-th of the block, and of those as near as it the first.
        bound = -np.partition(-cosines, k - 1, axis=1)[:, k - 1, None]
        beyond = np.cumsum(cosines == bound, axis=1) + (cosines > bound).sum(axis=1)[:, None] > k
        taken = (cosines > bound) | ((cosines == bound) & ~beyond)
        offered = np.nonzero(taken)[1].reshape(len(cosines), k)
        cosines = cosines[taken].reshape(len(cosines), k)
    both = np.concatenate([scores, cosines], axis=1)
    from_both = np.concatenate([places, offered + begin], axis=1)
    # Places grow from block to block, so a stable sort keeps the smaller place first.
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    scores[:] = np.take_along_axis(both, order, axis=1)
    places[:] = np.take_along_axis(from_both, order, axis=1)


def _check_finite(vectors: Vectors) -> None:
    if not np.isfinite(vectors).all():
        raise ValueError("the vectors hold NaN or infinity")
