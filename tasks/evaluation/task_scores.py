"""Scores an encoder's vectors on a suite's tasks: one value per pair, query or example."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.measures import metrics
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.evaluation_rows import Data, Subject, geometry_rows
from tercet.tasks.evaluation.items import Floats, Part, Scores
from tercet.tasks.evaluation.suites import fact_order, sts_sets
from tercet.tasks.evaluation.suites.duplicates import PairTask
from tercet.tasks.evaluation.suites.fact_order import OrderTask
from tercet.tasks.evaluation.suites.layout import text_form
from tercet.tasks.evaluation.suites.reranking import RERANKING_TASKS, RankedQuery, RankedTask
from tercet.tasks.evaluation.suites.sts import STS_TASKS, ScoredTask
from tercet.tasks.evaluation.suites.suite import Suite
from tercet.tasks.evaluation.suites.transfer import TRANSFER_TASKS, LabelledTask
from tercet.tasks.evaluation.transfer_outcome import outcome
from tercet.tasks.stage import BadInput, silent

FACT_ORDER_CASES = pa.schema(
    [
        ("model_version", pa.string()),
        ("task", pa.string()),
        ("kind", pa.string()),
        ("item", pa.int32()),
        ("anchor", pa.string()),
        ("rewording", pa.string()),
        ("changed", pa.string()),
        ("rewording_similarity", pa.float32()),
        ("changed_similarity", pa.float32()),
    ]
)
"""Table `fact_order_cases`. The cases of `evaluate.fact_order` in the measured splits, with each
model's cosines.

Columns:
    model_version: as in `evaluations`
    task: as in `evaluations`
    kind: the kind of change: `evaluation_items.subset`
    item: place among the cases of that kind: `evaluation_items.item`
    anchor: the sentence
    rewording: another way to say it
    changed: the sentence with a fact changed
    rewording_similarity: cosine of sentence and rewording
    changed_similarity: cosine of sentence and changed text
"""

# GenSE takes the pairs of STS-B scored above this as positives for alignment.
_POSITIVE_SCORE = 4.0

# How many tasks the average of a suite is made of.
GROUPS = {
    "sts": len(STS_TASKS),
    "transfer": len(TRANSFER_TASKS),
    "reranking": len(RERANKING_TASKS),
}

# SentEval also reports the F1 of this task.
_WITH_F1 = "MRPC"


class _Task(Protocol):
    """What all tasks share."""

    def texts(self) -> list[str]: ...
    def digest(self) -> str: ...


def task_scores(
    suite: Suite,
    own: Sequence[ScoredTask],
    encoded: Encoded,
    progress: Callable[[int, int | None, str], None] = silent,
) -> list[Scores]:
    """All tasks of the suite, and those of the run's own dev sentences (`awareness`).

    Raises: BadInput that names the set, where the encoder cannot be scored on it.
    """
    made = [scored(task, encoded) for task in suite.sts]
    for number, task in enumerate(suite.transfer, start=1):
        made.append(labelled(task, encoded))
        progress(number, len(suite.transfer), "classifiers")
    made += [ranked(ranking, encoded) for ranking in suite.reranking]
    made += [paired(pairs, encoded) for pairs in suite.pairs]
    made += [ordered(cases, encoded) for cases in suite.fact_order]
    made += [scored(pairs, encoded, sts_sets.SUITE) for pairs in suite.sts_sets]
    return made + [scored(pairs, encoded, "awareness") for pairs in own]


def scored(task: ScoredTask, encoded: Encoded, suite: str = "sts") -> Scores:
    """Cosines with the scores, file by file. Raises BadInput if all cosines are the same."""
    dev = suite != "awareness" and task.split != "test"
    data = _data(suite, f"{task.name} {task.split}" if dev else task.name, task)
    parts = []
    for part in task.parts:
        cosines = _cosines(part.first, part.second, encoded)
        _tell_apart(cosines, f"Spearman on {task.name} ({part.name})", "pairs")
        subset = part.name if len(task.parts) > 1 else "all"
        parts.append(Part(subset, cosines, part.scores))
    return Scores(data, "spearman", tuple(parts), averaged=suite == "sts" and not dev)


def labelled(task: LabelledTask, encoded: Encoded) -> Scores:
    """Right or wrong on each example, by a classifier on the model's own vectors."""
    found = outcome(task, encoded.own)
    data = _data("transfer", task.name, task)
    labels = found.labels if task.name == _WITH_F1 else None
    return Scores(data, "accuracy", (Part("all", found.right),), labels, averaged=True)


def ranked(task: RankedTask, encoded: Encoded) -> Scores:
    """The average precision of each query."""
    precisions, spread = [], 0.0
    for query in task.queries:
        cosines, relevant = _candidates(query, encoded)
        spread = max(spread, float(np.ptp(cosines)))
        precisions.append(metrics.average_precision(relevant, cosines))
    if spread <= metrics.TIE:
        raise BadInput(
            f"The ranking of {task.name} is undefined: the encoder gives all candidates of a query "
            "one similarity, so its vectors do not tell texts apart (collapsed training?)."
        )
    part = Part("all", np.array(precisions, dtype=np.float64))
    data = _data("reranking", task.name, task)
    return Scores(data, "map", (part,), averaged=task.name in RERANKING_TASKS)


def paired(task: PairTask, encoded: Encoded) -> Scores:
    """Cosines with the labels. Raises BadInput if all cosines are the same."""
    cosines = _cosines(task.first, task.second, encoded)
    _tell_apart(cosines, f"Average precision on {task.name}", "pairs")
    return Scores(_data("pairs", task.name, task), "ap", (Part("all", cosines, task.labels),))


def ordered(task: OrderTask, encoded: Encoded) -> Scores:
    """Which cases are in order, by kind of change."""
    sides = [encoded.of(texts) for texts in (task.anchors, task.rewordings, task.changed)]
    values = metrics.in_order(*sides)
    anchors, kinds = seeding.text_ids(task.anchors), np.array(task.kinds)
    parts = []
    for kind in dict.fromkeys(task.kinds):
        of_kind = kinds == kind
        parts.append(Part(kind, values[of_kind], anchors=anchors[of_kind]))
    return Scores(_data(fact_order.SUITE, task.title, task), "accuracy", tuple(parts))


def case_table(subject: Subject, task: OrderTask, encoded: Encoded) -> pa.Table:
    """Rows of `fact_order_cases`."""
    n = len(task.kinds)
    places = {kind: count(0) for kind in dict.fromkeys(task.kinds)}
    columns = {
        "model_version": pa.array([subject.model_version] * n, pa.string()),
        "task": pa.array([task.title] * n, pa.string()),
        "kind": pa.array(task.kinds, pa.string()),
        "item": [next(places[kind]) for kind in task.kinds],
        "anchor": pa.array(task.anchors, pa.string()),
        "rewording": pa.array(task.rewordings, pa.string()),
        "changed": pa.array(task.changed, pa.string()),
        "rewording_similarity": _cosines(task.anchors, task.rewordings, encoded),
        "changed_similarity": _cosines(task.anchors, task.changed, encoded),
    }
    return pa.table(columns, schema=FACT_ORDER_CASES)


def stsb_geometry(
    subject: Subject, suite: Suite, encoded: Encoded, seed: int
) -> list[dict[str, Any]]:
    """Alignment, uniformity and isotropy on STS-B, in each split that is measured."""
    rows: list[dict[str, Any]] = []
    for task in suite.sts:
        if task.name == "STS-B":
            part = task.parts[0]
            near = np.flatnonzero(part.scores > _POSITIVE_SCORE)
            first, second = [part.first[i] for i in near], [part.second[i] for i in near]
            data = scored(task, encoded).data
            rows += geometry_rows(subject, data, "all", encoded, first, second, task.texts(), seed)
    return rows


def _data(suite: str, name: str, task: _Task) -> Data:
    return Data(suite, name, text_form(task.texts()), task.digest())


def _cosines(first: Sequence[str], second: Sequence[str], encoded: Encoded) -> Floats:
    products = np.einsum("nd,nd->n", encoded.of(first), encoded.of(second))
    return np.asarray(products, dtype=np.float64)


def _candidates(query: RankedQuery, encoded: Encoded) -> tuple[Floats, Floats]:
    """Each candidate's cosine with its nearest wording of the query, and 1 for the positives."""
    candidates = (*query.positive, *query.negative)
    cosines = (encoded.of(query.wordings) @ encoded.of(candidates).T).max(axis=0)
    relevant = np.zeros(len(candidates))
    relevant[: len(query.positive)] = 1
    return np.asarray(cosines, dtype=np.float64), relevant


def _tell_apart(similarities: Floats, what: str, of: str) -> None:
    if len(similarities) > 1 and float(np.ptp(similarities)) <= metrics.TIE:
        raise BadInput(
            f"{what} is undefined: the encoder gives all {len(similarities)} {of} one similarity, "
            "so its vectors do not tell texts apart (collapsed training?)."
        )
