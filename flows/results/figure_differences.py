"""Two encoders' figures beside each other, as reports, `tercet diff` and studies compare them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import duckdb

from tercet.flows.results import paired_items
from tercet.flows.results.figures import Figure, Value, of_tasks, read_figures
from tercet.flows.results.metric_names import COUNTED, Metric, is_few
from tercet.flows.results.paired_items import Measured

if TYPE_CHECKING:
    from tercet.models.measures.resampling import Interval

# Of one metric, by seed.
Values: TypeAlias = Mapping[int | None, Value]


class Side(Protocol):
    """One of the two runs: its tables, and the recipe recorded with it."""

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """To the run's tables."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """With defaults filled in."""


@dataclass(frozen=True)
class Gap:
    """One encoder's figure minus another's, with its 95 % interval; of too few questions without.

    visible: the smallest difference that could have been seen. over: what was resampled; seeds:
    whether that was seeds.
    """

    mean: float
    low: float | None
    high: float | None
    visible: float | None
    over: str
    seeds: bool

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class FigureDifference:
    """One figure of both runs' trained encoders; a and b: its means over seeds."""

    one: Figure
    other: Figure
    a: float
    b: float
    sides: tuple[Side, Side]

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.one.name if self.one.transductive else self.other.name

    @property
    def few(self) -> bool:
        """Whether either is of too few questions to tell a gain from chance."""
        return self.one.few or self.other.few

    @property
    def same_data(self) -> bool:
        """Whether both were measured on the same data; if not, they cannot be compared."""
        return _digest(self.one) == _digest(self.other)

    @property
    def same_encoder(self) -> bool:
        """Whether both runs have the same encoders."""
        return _encoders(self.one) == _encoders(self.other)

    @property
    def counted(self) -> str:
        """What the figure counts, such as queries."""
        return COUNTED.get(self.one.metric.suite, "examples")

    @cached_property
    def gap(self) -> Gap | None:
        """B minus A, over common seeds or, with one training each, common queries or pairs."""
        if not self.same_data:
            return None
        a, b = self.sides
        seed = int(b.recipe.get("seed") or 0)

        def drawn() -> "Interval | None":
            ours, theirs = (
                Measured(side.connection, value.model, side.recipe["evaluate"]["bootstrap"])
                for side, figure in ((b, self.other), (a, self.one))
                for value in figure.after.values()
            )
            return paired_items.difference(ours, theirs, self.one.metric, seed)

        return compare_values(self.one.metric, self.other.after, self.one.after, drawn)


def compare_values(
    metric: Metric, ours: Values, theirs: Values, drawn: Callable[[], "Interval | None"]
) -> Gap | None:
    """Ours minus theirs, over common seeds or, with one training each, common queries or pairs.

    drawn: resamples the latter; None where they differ.
    """
    from tercet.models.measures.comparisons import compare_seeds

    few = any(is_few(value.n) for value in (*ours.values(), *theirs.values()))
    mine, others = (
        {seed: value.value for seed, value in side.items() if seed is not None}
        for side in (ours, theirs)
    )
    if len(mine.keys() & others.keys()) > 1:
        found = compare_seeds(mine, others)
        ends = (None, None, None) if few else (found.low, found.high, found.smallest_visible)
        return Gap(found.mean, *ends, f"{found.n} common seeds", True)
    # Means over different seeds cannot be compared pairwise, even with one seed in common.
    if len(ours) != 1 or len(theirs) != 1 or (resampled := drawn()) is None:
        return None
    low, high = resampled.low, resampled.high
    visible = None if low is None or high is None else (high - low) / 2
    (n,) = (value.n for value in ours.values())
    counted = COUNTED.get(metric.suite, "examples")
    over = f"{n:,} {counted}" if n else f"the same {counted}"
    return Gap(resampled.value, low, high, visible, over, False)


def compare_figures(a: Side, b: Side) -> list[FigureDifference]:
    """The figures that a report shows first and that both runs have, in A's order."""
    second = {figure.metric: figure for figure in _headlines(b)}
    found = []
    for one in _headlines(a):
        other = second.get(one.metric)
        mine, theirs = one.mean(), None if other is None else other.mean()
        if other is not None and mine is not None and theirs is not None:
            found.append(FigureDifference(one, other, mine, theirs, (a, b)))
    return found


def _headlines(side: Side) -> list[Figure]:
    return [figure for figure in of_tasks(read_figures(side.connection)) if figure.headline]


def _encoders(figure: Figure) -> list[str]:
    return sorted(value.model for value in figure.after.values())


def _digest(figure: Figure) -> str | None:
    return None if figure.first is None else figure.first.digest
