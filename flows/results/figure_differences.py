"""Two runs' figures beside each other: reports and `tercet diff` compare them here."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import duckdb

from tercet.flows.results import paired_items
from tercet.flows.results.figures import Figure, of_tasks, read_figures
from tercet.flows.results.metric_names import COUNTED
from tercet.flows.results.paired_items import Measured


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
    """B minus A with its 95 % interval, of too few questions without.

    over: what was resampled; seeds: whether that was seeds.
    """

    value: float
    low: float | None
    high: float | None
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
        from tercet.models.measures.comparisons import compare_seeds

        if not self.same_data:
            return None
        mine = {seed: value for seed, value in self.one.values().items() if seed is not None}
        theirs = {seed: value for seed, value in self.other.values().items() if seed is not None}
        if len(mine.keys() & theirs.keys()) > 1:
            told = compare_seeds(theirs, mine)
            low, high = (None, None) if self.few else (told.low, told.high)
            return Gap(told.mean, low, high, f"{told.n} common seeds", True)
        if len(self.one.after) > 1 or len(self.other.after) > 1:
            return None
        a, b = self.sides
        ours, seen = (
            Measured(side.connection, value.model, side.recipe["evaluate"]["bootstrap"])
            for side, figure in ((b, self.other), (a, self.one))
            for value in figure.after.values()
        )
        seed = int(b.recipe.get("seed") or 0)
        drawn = paired_items.difference(ours, seen, self.one.metric, seed)
        if drawn is None:
            return None
        n = None if self.one.first is None else self.one.first.n
        over = f"{n:,} {self.counted}" if n else f"the same {self.counted}"
        return Gap(drawn.value, drawn.low, drawn.high, over, False)


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
