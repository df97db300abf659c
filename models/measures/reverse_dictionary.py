"""How well definitions find their entries: ranks, and the figures made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Measure, mean_of

Scores: TypeAlias = npt.NDArray[np.float32]
# Scores that differ by less than this share are those of entries with the same vector.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Ranks:
    """Of each definition, how many entries that are not its own stand before its best own one.

    higher: for sure. tied: with the same score, so that each order among them is as likely.
    Both of shape (definitions,).
    """

    higher: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]

    def expected(self) -> npt.NDArray[np.float64]:
        """The expected rank of the best own entry, from 1."""
        return 1 + self.higher + self.tied / 2

    def within(self, count: int) -> npt.NDArray[np.float64]:
        """The probability that the best own entry is among the first `count`."""
        places = np.clip(count - self.higher, 0, self.tied + 1)
        return np.asarray(places / (self.tied + 1))

    def reciprocal(self) -> npt.NDArray[np.float64]:
        """The expected reciprocal rank."""
        # The mean of 1 / rank over all ranks that the tie leaves, by sums of the harmonic series.
        last = int((self.higher + self.tied).max(initial=0)) + 1
        sums = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, last + 1))])
        total = sums[self.higher + self.tied + 1] - sums[self.higher]
        return np.asarray(total / (self.tied + 1))


def ranks(
    scores: Callable[[slice], Scores], owners: Sequence[Sequence[int]], block: int = 64
) -> Ranks:
    """Where each definition's best own entry stands; its other own entries take no place.

    scores: of some definitions with all entries, (definitions, entries). owners: each definition's
    own entries, at least one. Raises ValueError where a score is NaN or infinite.
    """
    higher, tied = (np.empty(len(owners), dtype=np.int64) for _ in range(2))
    for start in range(0, len(owners), block):
        some = slice(start, min(start + block, len(owners)))
        found = scores(some)
        if not np.isfinite(found).all():
            raise ValueError("the encoder gives NaN or infinity: its training has diverged")
        for place, row in enumerate(found, start):
            own = np.asarray(owners[place])
            best = row[own].max()
            near = _ROUNDING * max(1.0, abs(float(best)))
            level = np.abs(row - best) <= near
            higher[place] = (row > best + near).sum()
            tied[place] = level.sum() - level[own].sum()
    return Ranks(higher, tied)


def figures(found: Ranks) -> dict[str, Measure | float]:
    """Measures of recall@1, recall@10 and MRR in percent, and the median rank."""
    return {
        "recall@1": mean_of(100.0 * found.within(1)),
        "recall@10": mean_of(100.0 * found.within(10)),
        "mrr": mean_of(100.0 * found.reciprocal()),
        "median_rank": float(np.median(found.expected())),
    }
