"""Bootstrap intervals and a paired test for every measure; summaries over seeds.

A `Measure` computes a figure from the number of times that each row was drawn. One code therefore
resamples a mean, a rank correlation (whose ranks are computed again in each resample) and an
average precision. Two models are compared on the same resamples: `sampled` draws them from the seed
and the number of rows alone.

Summaries over seeds treat the values as independent draws from a normal distribution (Student's t).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures import metrics

Floats: TypeAlias = npt.NDArray[np.float64]
# (resamples, rows): how often each row was drawn.
Counts: TypeAlias = npt.NDArray[np.int32]
# From counts to the figure of each resample, (resamples,); NaN where it is undefined.
Measure: TypeAlias = Callable[[Counts], Floats]

# Numbers in one block of counts.
_BLOCK = 1 << 20

# If the figure is undefined in more than this share of the resamples, there is no interval.
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True)
class Sampled:
    """A figure of all rows, and of each resample: draws (resamples,), NaN where undefined."""

    value: float
    draws: Floats


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its percentile interval; None without an interval.

    p: two-sided p-value of a difference against zero.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None = None


def mean_of(values: npt.ArrayLike) -> Measure:
    """The mean of one value per row. Raises ValueError for a value that is not finite."""
    column = np.asarray(values, dtype=np.float64)
    if not np.isfinite(column).all():
        raise ValueError("a mean needs finite numbers, got NaN or infinity")
    return lambda counts: (counts @ column) / counts.sum(axis=1)


def mean_within(values: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Measure, int]:
    """The mean of one value per row when whole groups are resampled, and the number of groups.

    groups: (rows,), any labels; rows with the same label are drawn together.
    Raises: ValueError as `mean_of`.
    """
    mean_of(values)
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(group)
    sums = np.bincount(group, np.asarray(values, dtype=np.float64))
    return lambda counts: (counts @ sums) / (counts @ sizes), len(sizes)


def spearman_of(x: npt.ArrayLike, y: npt.ArrayLike) -> Measure:
    """Spearman of two columns; a row drawn twice ties with itself.

    Raises: ValueError as `metrics.spearman`.
    """
    metrics.spearman(x, y)
    first, second = _ranked(np.asarray(x)), _ranked(np.asarray(y))

    def measure(counts: Counts) -> Floats:
        a, variance_a = first(counts)
        b, variance_b = second(counts)
        covariance = np.einsum("rn,rn,rn->r", counts, a, b)
        defined = (variance_a > 0) & (variance_b > 0)
        scale = np.sqrt(np.where(defined, variance_a * variance_b, 1.0))
        return np.where(defined, np.clip(covariance / scale, -1.0, 1.0), np.nan)

    return measure


def average_precision_of(labels: npt.ArrayLike, scores: npt.ArrayLike) -> Measure:
    """Average precision of scores against labels of 0 and 1, as `metrics.average_precision`."""
    metrics.average_precision(labels, scores)
    value = np.asarray(scores, dtype=np.float64)
    order = np.argsort(-value, kind="stable")
    ordered = value[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    positive = (np.asarray(labels)[order] > 0).astype(np.int32)

    def measure(counts: Counts) -> Floats:
        drawn = counts[:, order]
        above = np.cumsum(drawn, axis=1)[:, ends]
        hits = np.cumsum(drawn * positive, axis=1)[:, ends]
        precision = hits / np.maximum(above, 1)
        new = np.diff(hits, axis=1, prepend=0)
        total = hits[:, -1]
        precisions = np.einsum("rg,rg->r", new, precision) / np.maximum(total, 1)
        return np.where(total > 0, precisions, np.nan)

    return measure


def f1_of(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> Measure:
    """F1 of predictions of 0 and 1; NaN if neither predictions nor labels have a 1."""
    positive, true = np.asarray(predictions) > 0, np.asarray(labels) > 0
    return ratio_of(2 * (positive & true), positive.astype(np.int32) + true)


def ratio_of(numerators: npt.ArrayLike, denominators: npt.ArrayLike) -> Measure:
    """Sum of numerators divided by sum of denominators, (rows,) each; NaN where that sum is 0."""
    upper, lower = np.asarray(numerators), np.asarray(denominators)

    def measure(counts: Counts) -> Floats:
        total = counts @ lower
        return np.where(total > 0, (counts @ upper) / np.maximum(total, 1), np.nan)

    return measure


def sampled(measure: Measure, rows: int, resamples: int, seed: int) -> Sampled:
    """The figure of all rows and of resamples, which depend on seed and number of rows alone.

    Raises: ValueError without rows, and if the figure of all rows is undefined.
    """
    if rows == 0:
        raise ValueError("a bootstrap needs at least one row")
    value = float(measure(np.ones((1, rows), dtype=np.int32))[0])
    if not np.isfinite(value):
        raise ValueError(f"the figure of all {rows} rows is undefined")
    return Sampled(value, np.concatenate([measure(c) for c in _resamples(rows, resamples, seed)]))


def combined(parts: Sequence[Sampled], weights: Sequence[float] | None = None) -> Sampled:
    """The (weighted) mean of several figures, each resampled separately."""
    draws = np.average([part.draws for part in parts], axis=0, weights=weights)
    return Sampled(float(np.average([part.value for part in parts], weights=weights)), draws)


def interval(sampled: Sampled, level: float = 0.95) -> Interval:
    """The percentile interval; without ends if the figure is undefined in over 5 % of resamples."""
    draws = sampled.draws[np.isfinite(sampled.draws)]
    if len(draws) < len(sampled.draws) * (1 - _MOST_UNDEFINED) or len(draws) == 0:
        return Interval(sampled.value, None, None)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(sampled.value, float(low), float(high))


def paired_test(after: Sampled, before: Sampled, level: float = 0.95) -> Interval:
    """The difference after − before, both computed on the same resamples.

    The two-sided p-value belongs to the percentile interval: it is below 1 − level about when the
    interval excludes 0, and never below 2 / (resamples + 1).
    Raises: ValueError if the numbers of resamples differ.
    """
    if after.draws.shape != before.draws.shape:
        raise ValueError(
            f"a paired test needs the same resamples, got {len(after.draws)} and "
            f"{len(before.draws)}"
        )
    difference = Sampled(after.value - before.value, after.draws - before.draws)
    result = interval(difference, level)
    if result.low is None:
        return result
    draws = difference.draws[np.isfinite(difference.draws)]
    least = min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0))
    p = min(1.0, 2 * (least + 1) / (len(draws) + 1))
    return Interval(result.value, result.low, result.high, p)


def _ranked(values: npt.NDArray[np.float64]) -> Callable[[Counts], tuple[Floats, Floats]]:
    """From counts to centred mid-ranks, (resamples, rows), and the sums of their squares.

    A value drawn c times above b smaller draws has the ranks b + 1 to b + c. The mean rank is
    (rows + 1) / 2, with or without ties.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    ends = np.append(np.flatnonzero(new)[1:], len(values)) - 1
    group = np.empty(len(values), dtype=np.int64)
    group[order] = np.cumsum(new) - 1

    def ranks(counts: Counts) -> tuple[Floats, Floats]:
        upper = np.cumsum(counts[:, order], axis=1, dtype=np.int32)[:, ends]
        sizes = np.diff(upper, axis=1, prepend=0)
        middle = upper - (sizes + upper[:, -1:]) / 2
        squares = np.einsum("rg,rg,rg->r", sizes, middle, middle)
        return np.take(middle, group, axis=1), squares

    return ranks


def _resamples(rows: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Counts of drawn rows, in blocks of resamples."""
    generator = np.random.default_rng(seed)
    step = max(_BLOCK // rows, 1)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = generator.integers(0, rows, size=(size, rows))
        drawn += np.arange(size)[:, None] * rows
        counts = np.bincount(drawn.ravel(), minlength=size * rows)
        yield counts.reshape(size, rows).astype(np.int32)


# Relative standard deviation of values that differ by rounding only.
_NO_SCATTER = 1e-12


@dataclass(frozen=True)
class SeedSummary:
    """Mean over n seeds, standard deviation (n − 1) and the mean's interval.

    There is no interval for one seed, nor for equal values, which tell nothing about the variance.
    """

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def smallest_visible(self) -> float | None:
        """Half the interval's width: the smallest difference that would be detected."""
        return None if self.high is None else self.high - self.mean


def summarise_seeds(values: Sequence[float], level: float = 0.95) -> SeedSummary:
    """Mean, standard deviation and interval of a figure over seeds.

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
    """a − b over the seeds that both have. a, b: values by seed, in the same unit.

    Effects of a seed on both arms (row order, the head's initial weights) cancel out.
    Raises: ValueError if the arms share no seed, and for values that are not finite.
    """
    common = sorted(a.keys() & b.keys())
    if not common:
        raise ValueError(
            f"the two arms have no seed in common: {sorted(a) or 'none'} and {sorted(b) or 'none'}"
        )
    return summarise_seeds([a[seed] - b[seed] for seed in common], level)
