"""Search by vectors: the nearest documents by cosine, exactly, in bounded memory."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tercet.models.retrieval.rankings import NONE, Places, Scores

Vectors = npt.NDArray[np.float32]

# Numbers in one block of a product: 16 MB in float32. Documents of a block, at least, since the
# best so far are sorted once a block.
_NUMBERS, _GATHERED = 1 << 22, 1 << 15


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
    for block in _gathered(documents):
        _check_finite(block)
        rows = max(_NUMBERS // max(len(block), 1), 1)
        for start in range(0, len(queries), rows):
            some = slice(start, start + rows)
            cosines = queries[some] @ block.T
            _keep_best(places[some], scores[some], cosines, begin)
        begin += len(block)
    return places, scores


def _gathered(documents: Iterable[Vectors]) -> Iterator[Vectors]:
    """The same documents in blocks that are not small, but for the last."""
    some: list[Vectors] = []
    for block in documents:
        some.append(block)
        if sum(map(len, some)) >= _GATHERED:
            yield np.concatenate(some) if len(some) > 1 else block
            some = []
    if some:
        yield np.concatenate(some)


def _keep_best(places: Places, scores: Scores, cosines: Scores, begin: int) -> None:
    """Puts what a block has to offer among the best so far, in place."""
    k = places.shape[1]
    # Of equal ones the earlier stays, so what comes later must be nearer than the k-th.
    taken = cosines > scores[:, -1:]
    if taken.sum(axis=1).max(initial=0) > k:
        # What is nearer than the k-th of the block, and of those as near as it the first.
        bound = -np.partition(-cosines, k - 1, axis=1)[:, k - 1, None]
        beyond = np.cumsum(cosines == bound, axis=1) + (cosines > bound).sum(axis=1)[:, None] > k
        taken &= (cosines > bound) | ((cosines == bound) & ~beyond)
    # Several times as fast as `nonzero` of two dimensions.
    row, column = np.divmod(np.flatnonzero(taken), max(cosines.shape[1], 1))
    counts = np.bincount(row, minlength=len(cosines))
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = k + counts.max(initial=0)
    both = np.full((len(cosines), width), -np.inf, dtype=np.float32)
    from_both = np.full(both.shape, NONE, dtype=np.int64)
    both[:, :k], from_both[:, :k] = scores, places
    both[row, k + nth], from_both[row, k + nth] = cosines[row, column], column + begin
    # Places grow from block to block, so a stable sort keeps the smaller place first.
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    scores[:] = np.take_along_axis(both, order, axis=1)
    places[:] = np.take_along_axis(from_both, order, axis=1)


def _check_finite(vectors: Vectors) -> None:
    if not np.isfinite(vectors).all():
        raise ValueError("the vectors hold NaN or infinity")
