"""How sure a figure is: bootstrap intervals and a paired test, one way for every measure.

A `Measure` computes a figure for a resample, given as how often each row was drawn. So a
mean, a rank correlation and an average precision are resampled by the same code, ranks and all
computed again in each resample. Two models are compared on the same resamples: `sampled` draws them
from the seed and the number of rows alone.

Over seeds, a few values that training scattered count as independent draws from a normal
distribution (Student's t).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures import metrics

Floats: TypeAlias = npt.NDArray[np.float64]
# (resamples, rows), how often each row was drawn.
Counts: TypeAlias = npt.NDArray[np.int32]
# From counts to the figure in each resample, NaN where it is undefined there.
Measure: TypeAlias = Callable[[Counts], Floats]

# Numbers in one block of counts.
_BLOCK = 1 << 20

# If the figure is undefined in more than this share of the resamples, there is no interval.
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True)
class Sampled:
    """A figure, and what it was in each resample, of shape (resamples,), NaN where undefined."""

    value: float
    draws: Floats


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its percentile interval; None where it has none.

    p: of a difference, two-sided, of there being none.
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
    """The mean of one value per row where whole groups of rows are drawn, and their number.

    groups: (rows,), any labels; rows with the same label belong together.
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
        found = np.einsum("rg,rg->r", new, precision) / np.maximum(total, 1)
        return np.where(total > 0, found, np.nan)

    return measure


def f1_of(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> Measure:
    """F1 of predictions of 0 and 1, undefined where neither they nor the labels hold a 1."""
    said, true = np.asarray(predictions) > 0, np.asarray(labels) > 0
    hits, sizes = (said & true).astype(np.int32), said.astype(np.int32) + true

    def measure(counts: Counts) -> Floats:
        total = counts @ sizes
        return np.where(total > 0, 2 * (counts @ hits) / np.maximum(total, 1), np.nan)

    return measure


def sampled(measure: Measure, rows: int, resamples: int, seed: int) -> Sampled:
    """The figure of all rows and of resamples of them; the same seed and rows, the same resamples.

    Raises: ValueError without rows, and where the figure of all rows is undefined.
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


def interval(found: Sampled, level: float = 0.95) -> Interval:
    """The percentile interval; without ends where too many resamples have no such figure."""
    draws = found.draws[np.isfinite(found.draws)]
    if len(draws) < len(found.draws) * (1 - _MOST_UNDEFINED) or len(draws) == 0:
        return Interval(found.value, None, None)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(found.value, float(low), float(high))


def paired_test(after: Sampled, before: Sampled, level: float = 0.95) -> Interval:
    """after − before, where both were drawn on the same resamples.

    The two-sided p is that of the percentile interval: it lies below 1 − level about where the
    interval excludes none. It is never below 2 / (resamples + 1).
    Raises: ValueError where the numbers of resamples differ.
    """
    if after.draws.shape != before.draws.shape:
        raise ValueError(
            f"a paired test needs the same resamples, got {len(after.draws)} and "
            f"{len(before.draws)}"
        )
    difference = Sampled(after.value - before.value, after.draws - before.draws)
    found = interval(difference, level)
    if found.low is None:
        return found
    draws = difference.draws[np.isfinite(difference.draws)]
    least = min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0))
    p = min(1.0, 2 * (least + 1) / (len(draws) + 1))
    return Interval(found.value, found.low, found.high, p)


def _ranked(values: npt.NDArray[np.float64]) -> Callable[[Counts], tuple[Floats, Floats]]:
    """From counts to mid-ranks minus their mean, (resamples, rows), and the sums of their squares.

    A value drawn c times after b smaller ones takes up the places b + 1 to b + c; all places have
    the mean (rows + 1) / 2, whatever the ties.
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
    """How often each row is drawn, (some resamples, rows) at a time."""
    generator = np.random.default_rng(seed)
    step = max(_BLOCK // rows, 1)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = generator.integers(0, rows, size=(size, rows))
        drawn += np.arange(size)[:, None] * rows
        counts = np.bincount(drawn.ravel(), minlength=size * rows)
        yield counts.reshape(size, rows).astype(np.int32)


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
