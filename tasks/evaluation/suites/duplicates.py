"""Pairs of texts with a label: duplicates or paraphrases, or not.

One file per task, `pairs/NAME.tsv`, `.csv`, `.jsonl` or `.parquet`, plain or compressed, with the
columns `sentence1`, `sentence2` and `label` (1 the same, 0 not).
"""

from pathlib import Path
from typing import Any

import numpy as np

from tercet.tasks.corpus.sources.tables import checked_rows
from tercet.tasks.evaluation.suites.layout import named_file, text_in
from tercet.tasks.evaluation.suites.sts import ScoredPairs, ScoredTask
from tercet.tasks.evaluation.suites.task import Kind
from tercet.tasks.stage import BadInput

_COLUMNS = ("sentence1", "sentence2", "label")


def read_task(root: Path, name: str) -> ScoredTask:
    """The pairs of one file, with 1.0 if they mean the same and 0.0 if not.

    Raises: BadInput that names file and line for a missing column, an empty text, a label that is
        neither 0 nor 1, and a file with pairs of one label only.
    """
    path = named_file(root, KIND.name, KIND.suffixes, name)
    rows: list[tuple[str, str, float]] = []
    for where, values in checked_rows(path, _COLUMNS):
        first, second = (text_in(values, column, where) for column in _COLUMNS[:2])
        rows.append((first, second, _label(values.get("label"), where)))
    labels = np.array([label for _, _, label in rows])
    for label, what in ((1.0, "says the same (label 1)"), (0.0, "differs (label 0)")):
        if not (labels == label).any():
            raise BadInput(
                "no_rows",
                f"{path} holds {len(labels)} pairs and none that {what}: average precision needs "
                "both.",
            )
    firsts, seconds, _ = zip(*rows, strict=True)
    pairs = ScoredPairs(name, firsts, seconds, labels)
    return ScoredTask(name, "test", (pairs,), suite=KIND.name, metric="ap")


def _label(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if number not in (0.0, 1.0):
        raise BadInput("bad_row", f"{where}: the label {value!r} is neither 0 nor 1.")
    return number


KIND = Kind(
    "pairs",
    (),
    lambda root, name, split: read_task(root, name),
    suffixes=(".tsv", ".csv", ".jsonl", ".parquet"),
)
