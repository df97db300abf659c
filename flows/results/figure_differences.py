"""Compares two encoders' figures, over the same queries or pairs if both were measured on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt

from tercet.flows.results.figures import Figure, Value, of_tasks, read_figures
from tercet.flows.results.measure import ON_PAGES, Column, Table
from tercet.flows.results.metric_names import COUNTED, RETRIEVAL, Metric, is_few
from tercet.flows.results.queries import fetch_dicts
from tercet.flows.results.subject import Subject

if TYPE_CHECKING:
    from tercet.models.measures.resampling import Interval, Sampled
    from tercet.tasks.evaluation.suites.task import Scores

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """An encoder as evaluated by a run.

    connection: to the run's tables. model: its version in the table `evaluations`.
    resamples: the number of bootstrap resamples behind the run's intervals.
    """

    connection: duckdb.DuckDBPyConnection
    model: str
    resamples: int


def difference(one: Measured, other: Measured, metric: Metric, seed: int) -> "Interval | None":
    """The first minus the second in points, resampled together, row by row.

    With too few rows it has neither an interval nor a p.
    None if the results per row were not recorded, or if the rows differ.
    """
    from tercet.models.measures.resampling import Interval, paired_test

    resamples = min(one.resamples, other.resamples)
    ours, theirs = (sampled(measured, metric, resamples, seed) for measured in (one, other))
    if ours is None or theirs is None or ours[1] != theirs[1]:
        return None
    if is_few(len(ours[1])):
        return Interval(ours[0].value - theirs[0].value, None, None)
    return paired_test(ours[0], theirs[0])


def sampled(
    measured: Measured, metric: Metric, resamples: int, seed: int
) -> "tuple[Sampled, list[Any]] | None":
    """The figure with its resamples, in percent, and the keys of its rows."""
    from tercet.models.measures import resampling
    from tercet.tasks.evaluation.items import figures

    if metric.suite == "retrieval":
        rows = measured.connection.execute(
            """SELECT pair_id, rank FROM retrieval_ranks
               WHERE model_version = $model AND task = $task AND split = $split ORDER BY pair_id""",
            {"model": measured.model, "task": metric.task, "split": metric.subset},
        ).fetchall()
        values = _values_of_ranks(
            metric.name, np.array([rank for _, rank in rows], dtype=np.float64)
        )
        if values is None or not len(values):
            return None
        measure = resampling.mean_of(values)
        drawn = resampling.sampled(measure, len(values), resamples, seed)
        return drawn, [pair_id for pair_id, _ in rows]
    items = fetch_dicts(
        measured.connection,
        """FROM evaluation_items WHERE model_version = $model AND suite = $suite
           AND metric = $metric ORDER BY task, subset, item""",
        {"model": measured.model, "suite": metric.suite, "metric": metric.name},
    )
    scores = _scores(metric, items)
    groups = {metric.suite: len(scores)}
    for figure in figures(scores, groups, resamples, seed):
        if figure.name == (metric.suite, metric.task, metric.subset, metric.name):
            tasks = {score.data.task for score in scores}
            keys = ("task", "subset", "gold", "anchor_id")
            rows_of = [tuple(i[key] for key in keys) for i in items if i["task"] in tasks]
            return figure.sampled, rows_of
    return None


def _values_of_ranks(name: str, ranks: Floats) -> Floats | None:
    """One value per query, whose mean is the metric in percent; None for any other metric."""
    if name == "mrr":
        return np.asarray(100.0 / ranks, dtype=np.float64)
    if name in RETRIEVAL:
        hits = ranks <= int(name.removeprefix("recall@"))
        return np.where(hits, 100.0, 0.0)
    return None


def _scores(metric: Metric, items: Sequence[Mapping[str, Any]]) -> "list[Scores]":
    """The tasks that the metric averages, from the rows of `evaluation_items`."""
    from tercet.tasks.evaluation.items import AVERAGES
    from tercet.tasks.evaluation.suites.task import Data, Part, Scores

    average = metric.task == AVERAGES.get(metric.suite)
    parts: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for item in items:
        task = item["task"]
        if task == metric.task or (average and not task.endswith(" dev")):
            parts.setdefault(task, {}).setdefault(item["subset"], []).append(item)
    scores = []
    for task, subsets in parts.items():
        subset_parts = []
        for subset, rows in subsets.items():
            values = np.array([row["value"] for row in rows], dtype=np.float64)
            gold = anchors = None
            if rows[0]["gold"] is not None:
                gold = np.array([row["gold"] for row in rows], dtype=np.float64)
            if rows[0]["anchor_id"] is not None:
                anchors = np.array([row["anchor_id"] for row in rows], dtype=np.uint64)
            subset_parts.append(Part(subset, values, gold, anchors))
        data = Data(metric.suite, task, "", "")
        scores.append(Scores(data, metric.name, tuple(subset_parts), averaged=average))
    return scores


# The values of one metric by seed.
Values: TypeAlias = Mapping[int | None, Value]


@dataclass(frozen=True)
class Gap:
    """One encoder's figure minus another's, with its 95 % interval unless questions are too few.

    visible: the smallest difference that could have been seen. over: the units that were resampled.
    seeds: whether these were seeds.
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
    sides: tuple[Subject, Subject]

    @property
    def name(self) -> str:
        """The figure's name for people."""
        return self.one.name if self.one.transductive else self.other.name

    @property
    def few(self) -> bool:
        """Whether either figure has too few questions to tell a gain from chance."""
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
        """The unit that the figure counts, such as queries."""
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
            return difference(ours, theirs, self.one.metric, seed)

        return compare_values(self.one.metric, self.other.after, self.one.after, drawn)


def compare_values(
    metric: Metric, ours: Values, theirs: Values, drawn: Callable[[], "Interval | None"]
) -> Gap | None:
    """Ours minus theirs, over common seeds or, with one training each, common queries or pairs.

    drawn: resamples the queries or pairs; None if the two sides have different ones.
    """
    from tercet.models.measures.resampling import compare_seeds

    few = any(is_few(value.n) for value in (*ours.values(), *theirs.values()))
    first, others = (
        {seed: value.value for seed, value in side.items() if seed is not None}
        for side in (ours, theirs)
    )
    if len(first.keys() & others.keys()) > 1:
        gap = compare_seeds(first, others)
        ends = (None, None, None) if few else (gap.low, gap.high, gap.smallest_visible)
        return Gap(gap.mean, *ends, f"{gap.n} common seeds", True)
    # Means over different seeds cannot be compared pairwise, even with one seed in common.
    if len(ours) != 1 or len(theirs) != 1 or (resampled := drawn()) is None:
        return None
    low, high = resampled.low, resampled.high
    visible = None if low is None or high is None else (high - low) / 2
    (n,) = (value.n for value in ours.values())
    counted = COUNTED.get(metric.suite, "examples")
    over = f"{n:,} {counted}" if n else f"the same {counted}"
    return Gap(resampled.value, low, high, visible, over, False)


def compare_figures(a: Subject, b: Subject) -> list[FigureDifference]:
    """The figures that a report shows first and that both runs have, in A's order."""
    second = {figure.metric: figure for figure in _headlines(b)}
    differences = []
    for one in _headlines(a):
        other = second.get(one.metric)
        ours, theirs = one.mean(), None if other is None else other.mean()
        if other is not None and ours is not None and theirs is not None:
            differences.append(FigureDifference(one, other, ours, theirs, (a, b)))
    return differences


def difference_table(differences: Sequence[FigureDifference]) -> Table:
    """Both runs' figures and their differences."""
    rows = []
    for figure in differences:
        gap = figure.gap
        rows.append(
            {
                "figure": figure.one.unmarked,
                "transductive": figure.one.transductive or figure.other.transductive,
                "few": figure.few,
                "strong": gap is not None and gap.clear,
                "a": figure.a,
                "b": figure.b,
                "difference": figure.b - figure.a,
                "difference_low": gap and gap.low,
                "difference_high": gap and gap.high,
                "over": gap and gap.over,
                "data": "same" if figure.same_data else "different",
            }
        )
    columns = (
        Column("figure", "figure"),
        Column("a", "A", 2),
        Column("b", "B", 2),
        Column("difference", "B − A (95 % interval)", 2, "+", interval=True),
        Column("over", "over"),
        Column("data", "data", depth=ON_PAGES),
    )
    caption = (
        "The trained encoders, means over seeds. Bold: the interval excludes zero. An interval "
        "over queries or pairs does not include the variation between trainings. Figures on "
        "different data cannot be compared."
    )
    return Table(columns, rows, caption)


def _headlines(side: Subject) -> list[Figure]:
    return [figure for figure in of_tasks(read_figures(side.connection)) if figure.headline]


def _encoders(figure: Figure) -> list[str]:
    return sorted(value.model for value in figure.after.values())


def _digest(figure: Figure) -> str | None:
    return None if figure.first is None else figure.first.digest
