"""Ranks of dictionary entries for their definitions, and the figures made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Measure, mean_of

Scores: TypeAlias = npt.NDArray[np.float32]
# Relative difference of scores below which two entries have the same vector.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Ranks:
    """Rank of each definition's best own entry among the entries of other definitions.

    higher: other entries with a higher score. tied: other entries with the same score, in random
    order with it. own: own entries with that score, at least one. All of shape (definitions,).
    """

    higher: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]

    def expected(self) -> npt.NDArray[np.float64]:
        """The expected rank of the best own entry, from 1."""
        return 1 + self.higher + self.tied / (self.own + 1)

    def within(self, count: int) -> npt.NDArray[np.float64]:
        """The probability that the best own entry is among the first `count`."""
        # Probability that the tie's first places all belong to other entries.
        others = np.ones(len(self.higher))
        for place in range(count):
            left = self.tied + self.own - place
            share = np.clip(self.tied - place, 0, None) / np.maximum(left, 1)
            others *= np.where(place < count - self.higher, share, 1.0)
        return 1 - others

    def reciprocal(self) -> npt.NDArray[np.float64]:
        """The expected reciprocal rank."""
        rows = zip(self.higher.tolist(), self.tied.tolist(), self.own.tolist(), strict=True)
        return np.array([_reciprocal(*row) for row in rows])


def _reciprocal(higher: int, tied: int, targets: int) -> float:
    """The mean of 1 / rank of the first own entry over all orders of the tie."""
    before = np.arange(tied + 1)  # tied entries that precede the first own one
    left = tied + targets - before
    others = np.cumprod(np.concatenate([[1.0], (tied - before[:-1]) / left[:-1]]))
    return float((others * targets / left / (higher + 1 + before)).sum())


def ranks(
    scores: Callable[[slice], Scores], owners: Sequence[Sequence[int]], block: int = 64
) -> Ranks:
    """Ranks of each definition's best own entry; its other own entries are not counted.

    scores: returns the scores of a slice of definitions with all entries, (definitions, entries).
    owners: each definition's own entries, at least one. Raises ValueError for a score that is not
    finite.
    """
    higher, tied, equal = (np.empty(len(owners), dtype=np.int64) for _ in range(3))
    for start in range(0, len(owners), block):
        some = slice(start, min(start + block, len(owners)))
        block_scores = scores(some)
        if not np.isfinite(block_scores).all():
            raise ValueError("the encoder gives NaN or infinity: its training has diverged")
        for place, row in enumerate(block_scores, start):
            targets = np.asarray(owners[place])
            best = row[targets].max()
            near = _ROUNDING * max(1.0, abs(float(best)))
            level = np.abs(row - best) <= near
            higher[place] = (row > best + near).sum()
            equal[place] = level[targets].sum()
            tied[place] = level.sum() - equal[place]
    return Ranks(higher, tied, equal)


def figures(ranked: Ranks) -> dict[str, Measure | float]:
    """Measures of recall@1, recall@10 and MRR in percent, and the median rank."""
    return {
        "recall@1": mean_of(100.0 * ranked.within(1)),
        "recall@10": mean_of(100.0 * ranked.within(10)),
        "mrr": mean_of(100.0 * ranked.reciprocal()),
        "median_rank": float(np.median(ranked.expected())),
    }
