"""Rankings, two of them fused, and their measures against graded judgements.

A ranking is an array of places in the list of documents, best first, of shape (queries, depth),
with `NONE` behind the last document found. The measures are those of trec_eval.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Places: TypeAlias = npt.NDArray[np.int64]
Scores: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]

NONE = -1
"""Stands in a ranking where no further document was found."""

# Cormack, Clarke and Büttcher, SIGIR 2009: what a rank counts is 1 / (60 + rank).
_RANK_CONSTANT = 60


def fuse(*rankings: Places) -> Places:
    """The ranking by reciprocal rank fusion, of the depth of the deepest.

    Each ranking gives a document 1 / (60 + its rank); of equal sums the smaller place comes first.
    rankings: of the same queries. Raises ValueError where their numbers of queries differ.
    """
    if len({len(ranking) for ranking in rankings}) != 1:
        raise ValueError("rankings to fuse need the same queries")
    depth = max(ranking.shape[1] for ranking in rankings)
    fused = np.full((len(rankings[0]), depth), NONE, dtype=np.int64)
    for row in range(len(fused)):
        found = [ranking[row][ranking[row] != NONE] for ranking in rankings]
        places, inverse = np.unique(np.concatenate(found), return_inverse=True)
        counts = np.concatenate(
            [1.0 / (_RANK_CONSTANT + np.arange(1, len(some) + 1)) for some in found]
        )
        order = np.argsort(-np.bincount(inverse, counts), kind="stable")[:depth]
        fused[row, : len(order)] = places[order]
    return fused


def without(ranking: Places, left_out: Sequence[int]) -> Places:
    """The ranking without one document of each query; `NONE` leaves none out."""
    places = np.array(left_out, dtype=np.int64)[:, None]
    gone = (ranking == places) & (places != NONE)
    order = np.argsort(gone, axis=1, kind="stable")
    return np.where(
        np.take_along_axis(gone, order, axis=1), NONE, np.take_along_axis(ranking, order, axis=1)
    )


def first_of(ranking: Places, groups: npt.NDArray[np.int64]) -> Places:
    """The ranking of groups of documents, each at the rank order of its best one.

    groups: the place of each document's group, of shape (documents,).
    """
    ranked = np.full_like(ranking, NONE)
    for row, places in enumerate(ranking):
        found = groups[places[places != NONE]]
        _, first = np.unique(found, return_index=True)
        ranked[row, : len(first)] = found[np.sort(first)]
    return ranked


def measure(ranking: Places, judged: Sequence[Mapping[int, int]]) -> dict[str, Floats]:
    """Figures of each query, in [0, 1], of shape (queries,).

    `ndcg@10` (a grade is its gain, discounted by log2 of rank + 1), `recall@10`, `recall@100`,
    `map` (mean average precision over the whole depth) and `mrr@10`. A document counts as relevant
    from grade 1; negative grades gain nothing.

    judged: for each query the grades of the documents by place, at least one of them above 0. A
    document without a grade is not relevant.
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
