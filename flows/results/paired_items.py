"""Compares two encoders on the same queries or pairs, from their recorded results per item."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt

from tercet.flows.results.metric_names import RETRIEVAL, Metric, is_few
from tercet.flows.results.queries import fetch_dicts

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

    Of too few rows it has neither an interval nor a p.
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
        values = _of_ranks(metric.name, np.array([rank for _, rank in rows], dtype=np.float64))
        if values is None or not len(values):
            return None
        measure = resampling.mean_of(values)
        found = resampling.sampled(measure, len(values), resamples, seed)
        return found, [pair_id for pair_id, _ in rows]
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


def _of_ranks(name: str, ranks: Floats) -> Floats | None:
    """One value per query, whose mean is the metric in percent; None for any other metric."""
    if name == "mrr":
        return np.asarray(100.0 / ranks, dtype=np.float64)
    if name in RETRIEVAL:
        found = ranks <= int(name.removeprefix("recall@"))
        return np.where(found, 100.0, 0.0)
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
    found = []
    for task, subsets in parts.items():
        made = []
        for subset, rows in subsets.items():
            values = np.array([row["value"] for row in rows], dtype=np.float64)
            gold = anchors = None
            if rows[0]["gold"] is not None:
                gold = np.array([row["gold"] for row in rows], dtype=np.float64)
            if rows[0]["anchor_id"] is not None:
                anchors = np.array([row["anchor_id"] for row in rows], dtype=np.uint64)
            made.append(Part(subset, values, gold, anchors))
        data = Data(metric.suite, task, "", "")
        found.append(Scores(data, metric.name, tuple(made), averaged=average))
    return found
