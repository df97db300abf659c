"""Statistics over seeds: mean and deviation of one arm, and two arms over the same seeds.

Student's t over seeds: a few values that training scattered, taken as independent draws from a
normal distribution.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Of values that are equal but for rounding.
_NO_SCATTER = 1e-12


@dataclass(frozen=True)
class SeedSummary:
    """Mean over n seeds, standard deviation (n − 1) and the mean's interval.

    Without an interval where there is one seed, and where all of them gave the same: that tells
    nothing of how they scatter.
    """

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def smallest_visible(self) -> float | None:
        """Of a difference: half the interval's width, the smallest that could be detected."""
        return None if self.high is None else self.high - self.mean


def summarise_seeds(values: Sequence[float], level: float = 0.95) -> SeedSummary:
    """Mean, deviation and interval of a figure over seeds.

    Raises: ValueError without values and with one that is not finite.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 1 or len(table) == 0:
        raise ValueError("a summary over seeds needs at least one value")
    if not np.isfinite(table).all():
        raise ValueError("a summary over seeds needs finite numbers, got NaN or infinity")
    mean, n = float(table.mean()), len(table)
    if n < 2:
        return SeedSummary(mean, None, None, None, n)
    from scipy import stats

    sd = float(table.std(ddof=1))
    if sd <= _NO_SCATTER * max(1.0, abs(mean)):
        return SeedSummary(mean, 0.0, None, None, n)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * sd / math.sqrt(n)
    return SeedSummary(mean, sd, mean - half, mean + half, n)


def compare_seeds(
    a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95
) -> SeedSummary:
    """a − b, seed by seed, over the seeds that both have: values by seed, in the same unit.

    What a seed does to both arms (row order, the head's initial weights) cancels out.
    Raises: ValueError where no seed is in both, and for values that are no finite numbers.
    """
    common = sorted(a.keys() & b.keys())
    if not common:
        raise ValueError(
            f"the two arms have no seed in common: {sorted(a) or 'none'} and {sorted(b) or 'none'}"
        )
    return summarise_seeds([a[seed] - b[seed] for seed in common], level)
