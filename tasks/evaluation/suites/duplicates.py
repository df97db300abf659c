"""Pairs of texts that say the same or do not: duplicates, paraphrases.

A file a task, `pairs/NAME.tsv`, `.csv`, `.jsonl` or `.parquet`, plain or compressed, with the
columns `sentence1`, `sentence2` and `label` (1 the same, 0 not).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.tasks.corpus.sources import tables
from tercet.tasks.evaluation.suites.layout import content_digest, is_text, named_file, named_files
from tercet.tasks.stage import BadInput

FOLDER = "pairs"
SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")

_COLUMNS = ("sentence1", "sentence2", "label")
# Longer than any pair of texts to compare, in bytes.
_MAX_BYTES = 1 << 24


@dataclass(frozen=True)
class PairTask:
    """Pairs with 1.0 if they mean the same and 0.0 if not, in the file's order."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    labels: npt.NDArray[np.float64]

    def texts(self) -> list[str]:
        """All first texts, then all second ones."""
        return [*self.first, *self.second]

    def digest(self) -> str:
        """Digest over texts and labels, 16 hex digits: the same for the same pairs anywhere."""
        rows = zip(self.first, self.second, self.labels, strict=True)
        return content_digest((first, second, f"{label:g}") for first, second, label in rows)


def names(root: Path) -> list[str]:
    """The tasks whose files exist. Raises BadInput if one has two."""
    return list(named_files(root, FOLDER, SUFFIXES))


def file_of(root: Path, name: str) -> Path:
    """The file of one task. Raises BadInput."""
    return named_file(root, FOLDER, SUFFIXES, name)


def read_task(root: Path, name: str) -> PairTask:
    """The pairs of one file.

    Raises: BadInput that names file and line for a missing column, an empty text, a label that is
        neither 0 nor 1, and a file with pairs of one label only.
    """
    path = file_of(root, name)
    missing = [c for c in _COLUMNS if c not in tables.columns_of(path, _MAX_BYTES)]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]!r}: it needs {', '.join(_COLUMNS)}.")
    found: list[tuple[str, str, float]] = []
    for row in tables.rows(path, _MAX_BYTES, _COLUMNS):
        if row.fault is not None:
            raise BadInput(f"{path}, line {row.number}: {row.fault[1]}.")
        first, second = (_text(row, column, path) for column in _COLUMNS[:2])
        found.append((first, second, _label(row, path)))
    labels = np.array([label for _, _, label in found])
    for label, what in ((1.0, "says the same (label 1)"), (0.0, "differs (label 0)")):
        if not (labels == label).any():
            raise BadInput(
                f"{path} holds {len(labels)} pairs and none that {what}: average precision needs "
                "both."
            )
    return PairTask(name, tuple(f for f, _, _ in found), tuple(s for _, s, _ in found), labels)


def _text(row: tables.Row, column: str, path: Path) -> str:
    value = row.values.get(column)
    if not is_text(value):
        raise BadInput(f"{path}, line {row.number}: {column} holds no text.")
    return value


def _label(row: tables.Row, path: Path) -> float:
    value: Any = row.values.get("label")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if number not in (0.0, 1.0):
        raise BadInput(f"{path}, line {row.number}: the label {value!r} is neither 0 nor 1.")
    return number
