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

    higher: for sure. tied: with the same score, so that each order among them is as likely. own: of
    its own entries, how many have that score, at least one. All of shape (definitions,).
    """

    higher: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]

    def expected(self) -> npt.NDArray[np.float64]:
        """The expected rank of the best own entry, from 1."""
        return 1 + self.higher + self.tied / (self.own + 1)

    def within(self, count: int) -> npt.NDArray[np.float64]:
        """The probability that the best own entry is among the first `count`."""
        others = np.ones(len(self.higher))  # that the first places of the tie are all others'
        for place in range(count):
            left = self.tied + self.own - place
            share = np.clip(self.tied - place, 0, None) / np.maximum(left, 1)
            others *= np.where(place < count - self.higher, share, 1.0)
        return 1 - others

    def reciprocal(self) -> npt.NDArray[np.float64]:
        """The expected reciprocal rank."""
        rows = zip(self.higher.tolist(), self.tied.tolist(), self.own.tolist(), strict=True)
        return np.array([_reciprocal(*row) for row in rows])


def _reciprocal(higher: int, tied: int, own: int) -> float:
    """The mean of 1 / rank of the first own entry over all orders of the tie."""
    before = np.arange(tied + 1)  # other entries of the tie before it
    left = tied + own - before
    others = np.cumprod(np.concatenate([[1.0], (tied - before[:-1]) / left[:-1]]))
    return float((others * own / left / (higher + 1 + before)).sum())


def ranks(
    scores: Callable[[slice], Scores], owners: Sequence[Sequence[int]], block: int = 64
) -> Ranks:
    """Where each definition's best own entry stands; its other own entries take no place.

    scores: of some definitions with all entries, (definitions, entries). owners: each definition's
    own entries, at least one. Raises ValueError where a score is NaN or infinite.
    """
    higher, tied, equal = (np.empty(len(owners), dtype=np.int64) for _ in range(3))
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
            equal[place] = level[own].sum()
            tied[place] = level.sum() - equal[place]
    return Ranks(higher, tied, equal)


def figures(found: Ranks) -> dict[str, Measure | float]:
    """Measures of recall@1, recall@10 and MRR in percent, and the median rank."""
    return {
        "recall@1": mean_of(100.0 * found.within(1)),
        "recall@10": mean_of(100.0 * found.within(10)),
        "mrr": mean_of(100.0 * found.reciprocal()),
        "median_rank": float(np.median(found.expected())),
    }
