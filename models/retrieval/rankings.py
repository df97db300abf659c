"""Search by vectors, fusion of two rankings, and measures against graded judgements.

A ranking is an array (queries, depth) of document numbers, best first, padded with `NONE`. Measures
are defined as in trec_eval.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.runs import places_within

Places: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]

NONE = -1
"""Pads a ranking after its last document."""

WEIGHT = 0.2
"""Weight of BM25 relative to the encoder; chosen by `benchmarks/hybrid_weight.py`."""


def fuse(
    nearest: tuple[Places, Scores], worded: tuple[Places, Scores], weight: float = WEIGHT
) -> tuple[Places, Scores]:
    """The ranking by cosine and BM25 together, and its sums, (queries, the larger depth) each.

    A document's sum is its cosine divided by the query's largest cosine, plus `weight` times its
    BM25 divided by the query's largest BM25. A document missing from `nearest` gets the cosine of
    the last document there; a document missing from `worded` has BM25 0. Equal sums are ordered by
    document number; missing documents are `NONE` with sum 0.

    nearest: result of `search_vectors`. worded: result of `bm25.search` for the same queries.
    Raises ValueError if their numbers of queries differ.
    """
    if len(nearest[0]) != len(worded[0]):
        raise ValueError("rankings to add need the same queries")
    depth = max(nearest[0].shape[1], worded[0].shape[1])
    ranked = np.full((len(nearest[0]), depth), NONE, dtype=np.int64)
    ranked_sums = np.zeros(ranked.shape, dtype=np.float32)
    for row in range(len(ranked)):
        (near, cosines), (lexical, scores) = (
            (places[row][places[row] != NONE], values[row][places[row] != NONE])
            for places, values in (nearest, worded)
        )
        places, inverse = np.unique(np.concatenate([near, lexical]), return_inverse=True)
        sums = np.full(len(places), cosines[-1] if len(cosines) else 0.0, dtype=np.float64)
        sums[inverse[: len(near)]] = cosines
        # Cosines are not divided if even the largest is not positive.
        sums /= greatest if len(cosines) and (greatest := cosines[0]) > 0 else 1.0
        if len(scores):
            sums[inverse[len(near) :]] += weight * scores / scores[0]
        order = np.argsort(-sums, kind="stable")[:depth]
        ranked[row, : len(order)], ranked_sums[row, : len(order)] = places[order], sums[order]
    return ranked, ranked_sums


def without(ranking: tuple[Places, Scores], left_out: Sequence[int]) -> tuple[Places, Scores]:
    """The ranking and its scores without one document per query; `NONE` removes nothing."""
    documents, scores = ranking
    places = np.array(left_out, dtype=np.int64)[:, None]
    gone = (documents == places) & (places != NONE)
    order = np.argsort(gone, axis=1, kind="stable")
    remaining = np.where(gone, NONE, documents), np.where(gone, np.float32(0), scores)
    return np.take_along_axis(remaining[0], order, axis=1), np.take_along_axis(
        remaining[1], order, axis=1
    )


def first_of(ranking: Places, groups: npt.NDArray[np.int64]) -> Places:
    """The ranking of groups of documents; each group is ranked by its best document.

    groups: (documents,), the group number of each document.
    """
    ranked = np.full_like(ranking, NONE)
    for row, places in enumerate(ranking):
        row_groups = groups[places[places != NONE]]
        _, first = np.unique(row_groups, return_index=True)
        ranked[row, : len(first)] = row_groups[np.sort(first)]
    return ranked


def measure(ranking: Places, judged: Sequence[Mapping[int, int]]) -> dict[str, Floats]:
    """Measures of each query, in [0, 1], (queries,) each.

    `ndcg@10` (the gain is the grade, discounted by log2 of rank + 1), `recall@10`, `recall@100`,
    `map` (average precision over the whole depth) and `mrr@10`. A document is relevant from grade
    1; negative grades have no gain.

    judged: for each query, grades by document number, at least one above 0. A document without a
    grade is not relevant.
    Raises: ValueError for another number of queries, and for a query without a relevant document.
    """
    if len(judged) != len(ranking):
        raise ValueError(f"{len(ranking)} rankings, but judgements for {len(judged)} queries")
    grades: Floats = np.zeros(ranking.shape, dtype=np.float64)
    ideal: Floats = np.zeros((len(ranking), 10), dtype=np.float64)
    relevant = np.zeros(len(ranking), dtype=np.float64)
    for row, of_query in enumerate(judged):
        best = sorted((grade for grade in of_query.values() if grade > 0), reverse=True)
        if not best:
            raise ValueError(f"query {row} has no relevant document")
        relevant[row] = len(best)
        ideal[row, : len(best[:10])] = best[:10]
        grades[row] = [of_query.get(place, 0) for place in ranking[row].tolist()]
    grades = np.maximum(grades, 0)
    hits = grades > 0
    ranks = np.arange(1, ranking.shape[1] + 1)
    discounts: Floats = 1.0 / np.log2(np.arange(2, 12))
    first = np.where(hits[:, :10].any(axis=1), hits[:, :10].argmax(axis=1) + 1, np.inf)
    return {
        "ndcg@10": (grades[:, :10] * discounts[: ranking.shape[1]]).sum(axis=1)
        / (ideal * discounts).sum(axis=1),
        "recall@10": hits[:, :10].sum(axis=1) / relevant,
        "recall@100": hits[:, :100].sum(axis=1) / relevant,
        "map": (np.cumsum(hits, axis=1) / ranks * hits).sum(axis=1) / relevant,
        "mrr@10": 1.0 / first,
    }


Vectors = npt.NDArray[np.float32]

# Numbers in one block of a product (16 MB in float32), and the least documents of a block, since
# the best documents are sorted once per block.
_NUMBERS, _GATHERED = 1 << 22, 1 << 15


def search_vectors(queries: Vectors, documents: Iterable[Vectors], k: int) -> tuple[Places, Scores]:
    """Numbers and cosines of the k nearest documents of each query, best first, (queries, k) each.

    Missing documents are `NONE` with -inf. Equal cosines are ordered by document number. Most of
    the time goes to the matrix product; memory holds the queries, one block of documents and the
    result.

    queries: (n, d), unit vectors. documents: blocks of unit vectors, (any, d); rows are numbered
        across all blocks.
    Raises: ValueError if a vector is not finite.
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
    """The documents, regrouped in blocks of at least `_GATHERED`, except the last."""
    some: list[Vectors] = []
    for block in documents:
        some.append(block)
        if sum(map(len, some)) >= _GATHERED:
            yield np.concatenate(some) if len(some) > 1 else block
            some = []
    if some:
        yield np.concatenate(some)


def _keep_best(places: Places, scores: Scores, cosines: Scores, begin: int) -> None:
    """Merges the documents of a block into the best so far, in place. begin: the block's first
    document number."""
    k = places.shape[1]
    # The earlier document wins a tie, so a later one must be strictly nearer than the k-th.
    better = cosines > scores[:, -1:]
    if better.sum(axis=1).max(initial=0) > k:
        # Documents nearer than the block's k-th, and the first documents that are equally near.
        bound = -np.partition(-cosines, k - 1, axis=1)[:, k - 1, None]
        beyond = np.cumsum(cosines == bound, axis=1) + (cosines > bound).sum(axis=1)[:, None] > k
        better &= (cosines > bound) | ((cosines == bound) & ~beyond)
    # Several times as fast as a two-dimensional `nonzero`.
    row, column = np.divmod(np.flatnonzero(better), max(cosines.shape[1], 1))
    counts = np.bincount(row, minlength=len(cosines))
    nth = places_within(counts)
    width = k + counts.max(initial=0)
    both = np.full((len(cosines), width), -np.inf, dtype=np.float32)
    from_both = np.full(both.shape, NONE, dtype=np.int64)
    both[:, :k], from_both[:, :k] = scores, places
    both[row, k + nth], from_both[row, k + nth] = cosines[row, column], column + begin
    # Document numbers grow from block to block, so a stable sort keeps the smaller number first.
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    scores[:] = np.take_along_axis(both, order, axis=1)
    places[:] = np.take_along_axis(from_both, order, axis=1)


def _check_finite(vectors: Vectors) -> None:
    if not np.isfinite(vectors).all():
        raise ValueError("the vectors hold NaN or infinity")
