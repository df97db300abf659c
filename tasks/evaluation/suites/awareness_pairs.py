"""The pairs of stage `awareness` as tasks: the teacher's cosines stand where others have scores.

Apart from that stage, so that measuring an encoder depends on none of the rules behind the pairs.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from tercet.tasks.evaluation.suites.sts import ScoredPairs, ScoredTask

KINDS = ("entity", "quantity")
TASKS = (*KINDS, "all")
_COLUMNS = ["pair_id", "kind", "anchor", "text", "teacher_similarity"]


def read_awareness(table: pa.Table) -> list[ScoredTask]:
    """The tasks that the rows of `awareness_pairs` have pairs for, each in the order of pair_id.

    `all` has each pair of texts once, whatever the kinds that it stands for.
    """
    rows = table.select(_COLUMNS).sort_by("pair_id").to_pylist()
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    distinct = {(row["anchor"], row["text"]): row for row in reversed(rows)}
    everything = [row for row in rows if distinct[row["anchor"], row["text"]] is row]
    tasks = {**by_kind, "all": everything}
    return [_task(name, tasks[name]) for name in TASKS if tasks[name]]


def _task(name: str, rows: list[dict[str, Any]]) -> ScoredTask:
    scores = np.array([row["teacher_similarity"] for row in rows], dtype=np.float64)
    first = tuple(row["anchor"] for row in rows)
    second = tuple(row["text"] for row in rows)
    return ScoredTask(name, "dev", (ScoredPairs(name, first, second, scores),), suite="awareness")
