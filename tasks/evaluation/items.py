"""One value per pair, query or example of a task, and the figures computed from them.

The values are the table `evaluation_items`. Figures, intervals and gains over another model need
only these values, so a baseline is read from its table and never encoded again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import kind_of
from tercet.models import seeding
from tercet.models.measures import resampling
from tercet.models.measures.resampling import Measure, Sampled
from tercet.tasks.evaluation.evaluation_rows import Subject, row
from tercet.tasks.evaluation.suites.task import Data, Part, Scores
from tercet.tasks.stage import BadInput

EVALUATION_ITEMS = pa.schema(
    [
        ("model_version", pa.string()),
        ("suite", pa.string()),
        ("task", pa.string()),
        ("subset", pa.string()),
        ("metric", pa.string()),
        ("item", pa.int32()),
        ("gold", pa.float64()),
        ("value", pa.float64()),
        ("anchor_id", pa.uint64()),
        ("query_id", pa.uint64()),
    ]
)
"""Table `evaluation_items`. One row per model and pair, case, example or query of a suite
(retrieval has `retrieval_ranks`): the data from which `evaluations` is computed.

Key: `model_version`, `suite`, `task`, `subset`, `metric`, `item`.

Columns:
    model_version: as in `evaluations`
    suite: `labels`, `retrieval_sets`, `sts_sets`, `sts`, `fact_order`, `transfer`, `reranking`,
        `pairs` or `awareness`
    task: as in `evaluations`; never an average
    subset: the file of a year of STS; for `fact_order` the kind of change; else `all`
    metric: the figure that the value belongs to
    item: place in the file, from 0; for STS among the scored pairs, for `sts_sets` among the
        usable pairs of the split, for reranking among the queries with both kinds of candidates,
        for transfer among the test examples (for MR, CR, SUBJ and MPQA all, class 1 first), for
        `fact_order` among the cases of the split and kind, for `awareness` by `pair_id`, for
        `labels` by `doc_id`
    gold: the human score, the teacher's cosine, or a pair's label 0 or 1; NULL for `labels`,
        `transfer`, `reranking`, `retrieval_sets` and `fact_order`
    value: the pair's cosine; for `retrieval_sets` the query's measure; for `labels` and `transfer`
        1 right, 0 wrong; for `reranking` the query's average precision; for `fact_order` 1 in
        order, 0 not, 0.5 for a tie
    anchor_id: for `fact_order` the id of the anchor's text, which several cases may share; else
        NULL
    query_id: for `retrieval_sets` the id of the query's text, as in `judgements`; else NULL
"""


# If all tasks of a group are measured on test, their average is a separate task.
AVERAGES: Mapping[str, str] = {"sts": "STS", "transfer": "transfer", "reranking": "reranking"}


@dataclass(frozen=True)
class Figure:
    """One figure, in percent, with its resamples. n: the items behind it."""

    data: Data
    subset: str
    metric: str
    sampled: Sampled
    n: int
    fixed: bool = False

    @property
    def name(self) -> tuple[str, str, str, str]:
        """The figure's identity among a model's figures."""
        return self.data.suite, self.data.task, self.subset, self.metric

    def row(self, subject: Subject) -> dict[str, Any]:
        """The figure's row of `evaluations`."""
        interval = resampling.interval(self.sampled)
        return row(subject, self.data, self.subset, self.metric, interval, self.n)


def figures(
    scores: Sequence[Scores], groups: Mapping[str, int], resamples: int, seed: int
) -> list[Figure]:
    """The figures of all tasks, and the average of each complete group.

    groups: the number of tasks in a suite's average.
    Raises: BadInput, naming the set, if a figure is undefined.
    """
    figures_of_tasks: list[Figure] = []
    for suite in dict.fromkeys(task.data.suite for task in scores):
        members = [task for task in scores if task.data.suite == suite]
        for task in members:
            figures_of_tasks += _task_figures(task, resamples, seed)
        averaged = [task for task in members if task.averaged]
        if averaged and len(averaged) == groups.get(suite):
            figures_of_tasks += _averages(AVERAGES[suite], averaged, figures_of_tasks)
    return figures_of_tasks


def item_table(subject: Subject, scores: Sequence[Scores]) -> pa.Table:
    """Rows of `evaluation_items`."""
    tables = [EVALUATION_ITEMS.empty_table()]
    for task in scores:
        for part in task.parts:
            n = len(part.values)
            gold = part.gold if part.gold is not None else pa.nulls(n, pa.float64())
            anchors = part.anchors if part.anchors is not None else pa.nulls(n, pa.uint64())
            queries = part.queries if part.queries is not None else pa.nulls(n, pa.uint64())
            data = task.data
            names = (subject.model_version, data.suite, data.task, part.subset, task.metric)
            columns = [pa.repeat(pa.scalar(name), n) for name in names]
            columns += [np.arange(n, dtype=np.int32), gold, part.values, anchors, queries]
            tables.append(pa.table(columns, schema=EVALUATION_ITEMS))
    return pa.concat_tables(tables)


def rescore(scores: Sequence[Scores], items: pa.Table) -> list[Scores]:
    """The scores with values that another evaluation wrote into `evaluation_items`.

    Raises: BadInput if some are missing.
    """
    rescored = []
    for task in scores:
        parts = []
        for part in task.parts:
            of_part = items.filter(
                (pc.field("suite") == task.data.suite)
                & (pc.field("task") == task.data.task)
                & (pc.field("subset") == part.subset)
                & (pc.field("metric") == task.metric)
            )
            if of_part.num_rows != len(part.values):
                raise BadInput(
                    "no_rows",
                    f"The baseline has {of_part.num_rows} of the {len(part.values)} items of "
                    f"{task.data.task} ({part.subset}), so nothing can be compared: evaluate it on "
                    "the same suite.",
                )
            parts.append(replace(part, values=of_part.sort_by("item")["value"].to_numpy()))
        rescored.append(replace(task, parts=tuple(parts)))
    return rescored


def _task_figures(task: Scores, resamples: int, seed: int) -> list[Figure]:
    data = task.data
    single = [
        _sampled(task, task.metric, [part], part.subset, resamples, seed) for part in task.parts
    ]
    sizes = [len(part.values) for part in task.parts]
    whole = single[0]
    if len(task.parts) > 1:
        whole = _sampled(task, task.metric, task.parts, "all", resamples, seed)
    listed = [Figure(data, "all", task.metric, whole, sum(sizes), task.fixed)]
    if data.suite == "sts":
        settings = {"mean": None, "wmean": sizes}
        listed += [
            Figure(data, setting, task.metric, resampling.combined(single, weights), sum(sizes))
            for setting, weights in settings.items()
        ]
    if len(task.parts) > 1:
        listed += [
            Figure(data, part.subset, task.metric, sampled, size)
            for part, sampled, size in zip(task.parts, single, sizes, strict=True)
        ]
    if task.labels is not None:
        f1 = _sampled(task, "f1", task.parts, "all", resamples, seed)
        listed.append(Figure(data, "all", "f1", f1, sum(sizes)))
    return listed


def _averages(
    name: str, members: Sequence[Scores], figures_of_tasks: Sequence[Figure]
) -> list[Figure]:
    """The means of the members' figures, one for each subset that they have."""
    of = [task.data for task in members]
    forms = ", ".join(dict.fromkeys(data.text_form for data in of))
    digest = hashlib.sha256(" ".join(data.data_digest for data in of).encode()).hexdigest()[:16]
    average, tasks = Data(of[0].suite, name, forms, digest), {data.task for data in of}
    averages = []
    for subset in ("all", "mean", "wmean"):
        some = [
            figure
            for figure in figures_of_tasks
            if figure.data.suite == average.suite
            and figure.data.task in tasks
            and (figure.subset, figure.metric) == (subset, members[0].metric)
        ]
        if some:
            sampled = resampling.combined([figure.sampled for figure in some])
            n = sum(figure.n for figure in some)
            averages.append(Figure(average, subset, members[0].metric, sampled, n))
    return averages


def _sampled(
    task: Scores, metric: str, parts: Sequence[Part], subset: str, resamples: int, seed: int
) -> Sampled:
    """The figure in percent. Its resamples are the same for every model, and differ by set."""
    data = task.data
    stream = seeding.text_id(str(seed), data.suite, data.task, subset)
    try:
        sampled = resampling.sampled(*_measure(task, metric, parts), resamples, stream)
    except ValueError as error:
        where = data.task if subset == "all" else f"{data.task} ({subset})"
        raise BadInput(
            kind_of(error, "unfit_model"), f"{where} cannot be evaluated: {error}."
        ) from None
    return Sampled(100.0 * sampled.value, 100.0 * sampled.draws)


def _measure(task: Scores, metric: str, parts: Sequence[Part]) -> tuple[Measure, int]:
    """The measure, and the number of rows to draw from."""
    values = np.concatenate([part.values for part in parts])
    anchors = [part.anchors for part in parts if part.anchors is not None]
    if anchors:
        return resampling.mean_within(values, np.concatenate(anchors))
    if metric == "f1":
        # MRPC has two classes, so a wrong prediction is the class that the label is not.
        labels = np.asarray(task.labels)
        return resampling.f1_of(labels, np.where(values > 0, labels, 1 - labels)), len(values)
    if metric in ("spearman", "ap"):
        gold = np.concatenate([part.gold for part in parts if part.gold is not None])
        if metric == "spearman":
            return resampling.spearman_of(values, gold), len(values)
        return resampling.average_precision_of(gold, values), len(values)
    return resampling.mean_of(values), len(values)


def gains_of_choice(
    rows: Sequence[dict[str, Any]], choices: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rows, with the gain of choosing in place of gains on questions that chose this model.

    choices: rows of the table `choices`.
    """
    by_figure = {(f"{one['task']}", f"{one['metric']}_gain"): one for one in choices}
    changed = []
    for one in rows:
        choice = by_figure.get((one["task"], one["metric"]))
        if one["suite"] == "retrieval_sets" and choice is not None:
            ends = {key: choice[key] for key in ("ci_low", "ci_high")}
            one = {**one, "value": choice["gain"], **ends}
        changed.append(one)
    return changed


def gain_rows(
    subject: Subject, after: Sequence[Figure], before: Sequence[Figure]
) -> list[dict[str, Any]]:
    """after − before of each figure that both have, as rows `…_gain` with their p."""
    by_name = {figure.name: figure for figure in before}
    rows = []
    for figure in after:
        if figure.name in by_name and not figure.fixed:
            test = resampling.paired_test(figure.sampled, by_name[figure.name].sampled)
            rows.append(
                row(subject, figure.data, figure.subset, f"{figure.metric}_gain", test, figure.n)
            )
    return rows
