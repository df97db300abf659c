"""One value per pair, query or example of a task, and the figures that follow from them.

The values are the table `evaluation_items`; the figures, their intervals and the gains over another
model follow from them alone, so that a baseline is read from its table and never encoded again.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.models.measures import resampling
from tercet.models.measures.resampling import Measure, Sampled
from tercet.models.seeding import Ids
from tercet.tasks.evaluation.evaluation_rows import Data, Subject
from tercet.tasks.stage import BadInput

EVALUATION_ITEMS = pa.schema(
    [
        ("model_version", pa.string()),
        ("suite", pa.string()),
        ("task", pa.string()),
        ("subset", pa.string()),
        ("item", pa.int32()),
        ("gold", pa.float64()),
        ("value", pa.float64()),
        ("anchor_id", pa.uint64()),
    ]
)
"""Table `evaluation_items`. One row per model and pair, case, example or query of a suite
(retrieval has `retrieval_ranks`): the data from which `evaluations` is computed.

Columns:
    model_version: as in `evaluations`
    suite: `labels`, `sts_sets`, `sts`, `fact_order`, `transfer`, `reranking`, `pairs` or
        `awareness`
    task: as in `evaluations`; never an average
    subset: the file of a year of STS; for `fact_order` the kind of change; else `all`
    item: place in the file, from 0; for STS among the scored pairs, for `sts_sets` among the
        usable pairs of the split, for reranking among the queries with both kinds of candidates,
        for transfer among the test examples (for MR, CR, SUBJ and MPQA all, class 1 first), for
        `fact_order` among the cases of the split and kind, for `awareness` by `pair_id`, for
        `labels` by `doc_id`
    gold: the human score, the teacher's cosine, or a pair's label 0 or 1; NULL for `labels`,
        `transfer`, `reranking` and `fact_order`
    value: the pair's cosine; for `labels` and `transfer` 1 right, 0 wrong; for `reranking` the
        query's average precision; for `fact_order` 1 in order, 0 not, 0.5 for a tie
    anchor_id: for `fact_order` the id of the anchor's text, which several cases may share; else
        NULL
"""

Floats = npt.NDArray[np.float64]
Metric = Literal["spearman", "accuracy", "map", "ap"]
# Values by suite, task and subset, in the items' order.
Values = Mapping[tuple[str, str, str], Floats]

# Where all tasks of a group are measured on test, their average is a task of its own.
AVERAGES: Mapping[str, str] = {"sts": "STS", "transfer": "transfer", "reranking": "reranking"}


@dataclass(frozen=True)
class Part:
    """The values of one file: cosines, rights and wrongs (1 and 0), or average precisions.

    gold: the human judgement, where the figure compares with it.
    anchors: ids of the texts that several items may share; these are then resampled together.
    """

    subset: str
    values: Floats
    gold: Floats | None = None
    anchors: Ids | None = None


@dataclass(frozen=True)
class Scores:
    """A model's results on one task.

    labels: the true classes (0 and 1) of a two-class task that also has an F1.
    averaged: it is one of those that the group's average is made of.
    """

    data: Data
    metric: Metric
    parts: tuple[Part, ...]
    labels: npt.NDArray[np.int64] | None = None
    averaged: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure, in percent, with what it was in the resamples; n: the items behind it."""

    data: Data
    subset: str
    metric: str
    sampled: Sampled
    n: int

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What identifies it among a model's figures."""
        return self.data.suite, self.data.task, self.subset, self.metric


def figures(
    scores: Sequence[Scores], groups: Mapping[str, int], resamples: int, seed: int
) -> list[Figure]:
    """The figures of all tasks, and the average of each group that is whole.

    groups: how many tasks the average of a suite is made of.
    Raises: BadInput, naming the set, where a figure is undefined.
    """
    found: list[Figure] = []
    for suite in dict.fromkeys(task.data.suite for task in scores):
        members = [task for task in scores if task.data.suite == suite]
        for task in members:
            found += _task_figures(task, resamples, seed)
        averaged = [task for task in members if task.averaged]
        if averaged and len(averaged) == groups.get(suite):
            found += _averages(AVERAGES[suite], averaged, found)
    return found


def item_table(subject: Subject, scores: Sequence[Scores]) -> pa.Table:
    """Rows of `evaluation_items`."""
    tables = [EVALUATION_ITEMS.empty_table()]
    for task in scores:
        for part in task.parts:
            n = len(part.values)
            gold = part.gold if part.gold is not None else pa.nulls(n, pa.float64())
            anchors = part.anchors if part.anchors is not None else pa.nulls(n, pa.uint64())
            columns = {
                "model_version": pa.array([subject.model_version] * n, pa.string()),
                "suite": pa.array([task.data.suite] * n, pa.string()),
                "task": pa.array([task.data.task] * n, pa.string()),
                "subset": pa.array([part.subset] * n, pa.string()),
                "item": np.arange(n, dtype=np.int32),
                "gold": gold,
                "value": part.values,
                "anchor_id": anchors,
            }
            tables.append(pa.table(columns, schema=EVALUATION_ITEMS))
    return pa.concat_tables(tables)


def values_of(items: pa.Table) -> dict[tuple[str, str, str], Floats]:
    """What another evaluation wrote into `evaluation_items`."""
    keys = ["suite", "task", "subset"]
    groups = items.group_by(keys, use_threads=False).aggregate(
        [("item", "list"), ("value", "list")]
    )
    found = {}
    for group in groups.to_batches():
        for row in range(group.num_rows):
            order = np.argsort(group["item_list"][row].values.to_numpy(), kind="stable")
            values = group["value_list"][row].values.to_numpy()[order]
            found[tuple(group[key][row].as_py() for key in keys)] = values
    return found


def as_done_by(scores: Sequence[Scores], values: Values) -> list[Scores]:
    """The same tasks with another model's values. Raises BadInput if some are missing."""
    done = []
    for task in scores:
        parts = []
        for part in task.parts:
            name = (task.data.suite, task.data.task, part.subset)
            there = values.get(name)
            if there is None or len(there) != len(part.values):
                have = 0 if there is None else len(there)
                raise BadInput(
                    f"The baseline has {have} of the {len(part.values)} items of {task.data.task} "
                    f"({part.subset}), so nothing can be compared: evaluate it on the same suite."
                )
            parts.append(replace(part, values=there))
        done.append(replace(task, parts=tuple(parts)))
    return done


def _task_figures(task: Scores, resamples: int, seed: int) -> list[Figure]:
    data = task.data
    single = [_sampled(task, [part], part.subset, resamples, seed) for part in task.parts]
    sizes = [len(part.values) for part in task.parts]
    whole = single[0]
    if len(task.parts) > 1:
        whole = _sampled(task, task.parts, "all", resamples, seed)
    found = [Figure(data, "all", task.metric, whole, sum(sizes))]
    if data.suite == "sts":
        settings = {"mean": None, "wmean": sizes}
        found += [
            Figure(data, setting, task.metric, resampling.combined(single, weights), sum(sizes))
            for setting, weights in settings.items()
        ]
    if len(task.parts) > 1:
        found += [
            Figure(data, part.subset, task.metric, sampled, size)
            for part, sampled, size in zip(task.parts, single, sizes, strict=True)
        ]
    if task.labels is not None:
        found.append(Figure(data, "all", "f1", _f1(task, resamples, seed), sum(sizes)))
    return found


def _averages(name: str, members: Sequence[Scores], found: Sequence[Figure]) -> list[Figure]:
    """The mean of the members' figures, in every setting that they have."""
    data = average_data(name, [task.data for task in members])
    tasks = {task.data.task for task in members}
    averages = []
    for subset in ("all", "mean", "wmean"):
        some = [
            figure
            for figure in found
            if figure.data.suite == data.suite
            and figure.data.task in tasks
            and (figure.subset, figure.metric) == (subset, members[0].metric)
        ]
        if some:
            sampled = resampling.combined([figure.sampled for figure in some])
            n = sum(figure.n for figure in some)
            averages.append(Figure(data, subset, members[0].metric, sampled, n))
    return averages


def average_data(name: str, members: Sequence[Data]) -> Data:
    """Form and digest of several sets together."""
    forms = ", ".join(dict.fromkeys(data.text_form for data in members))
    digest = hashlib.sha256(" ".join(data.digest for data in members).encode()).hexdigest()[:16]
    return Data(members[0].suite, name, forms, digest)


def _sampled(
    task: Scores, parts: Sequence[Part], subset: str, resamples: int, seed: int
) -> Sampled:
    values = np.concatenate([part.values for part in parts])
    anchors = [part.anchors for part in parts if part.anchors is not None]

    def measure() -> tuple[Measure, int]:
        if anchors:
            return resampling.mean_within(values, np.concatenate(anchors))
        if task.metric in ("accuracy", "map"):
            return resampling.mean_of(values), len(values)
        gold = np.concatenate([part.gold for part in parts if part.gold is not None])
        if task.metric == "ap":
            return resampling.average_precision_of(gold, values), len(values)
        return resampling.spearman_of(values, gold), len(values)

    where = task.data.task if subset == "all" else f"{task.data.task} ({subset})"
    return _percent(measure, where, resamples, _stream(task.data, subset, seed))


def _f1(task: Scores, resamples: int, seed: int) -> Sampled:
    """F1 from right and wrong answers: with two classes, a wrong answer is the other class."""
    labels = task.labels
    assert labels is not None
    right = np.concatenate([part.values for part in task.parts]) > 0
    said = np.where(right, labels, 1 - labels)
    stream = _stream(task.data, "all", seed)
    return _percent(
        lambda: (resampling.f1_of(labels, said), len(labels)), task.data.task, resamples, stream
    )


def _percent(
    measure: Callable[[], tuple[Measure, int]], where: str, resamples: int, stream: int
) -> Sampled:
    """measure: gives the measure, and the number of rows to draw from."""
    try:
        found = resampling.sampled(*measure(), resamples, stream)
    except ValueError as error:
        raise BadInput(f"{where} cannot be evaluated: {error}.") from None
    return Sampled(100.0 * found.value, 100.0 * found.draws)


def _stream(data: Data, subset: str, seed: int) -> int:
    """The seed of a set's resamples: the same for every model, another for every set."""
    return seeding.text_id(str(seed), data.suite, data.task, subset)


def gain_rows(
    row: Callable[..., dict[str, Any]], after: Sequence[Figure], before: Sequence[Figure]
) -> list[dict[str, Any]]:
    """after − before of each figure that both have, as rows `…_gain` with their p."""
    known = {figure.name: figure for figure in before}
    rows = []
    for figure in after:
        if figure.name in known:
            test = resampling.paired_test(figure.sampled, known[figure.name].sampled)
            made = row(figure.data, figure.subset, f"{figure.metric}_gain", test, figure.n)
            rows.append({**made, "p": test.p})
    return rows
