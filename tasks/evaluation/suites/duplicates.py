"""Pairs of texts that say the same or do not: duplicates, paraphrases.

A file a task, `pairs/NAME.tsv`, `.csv`, `.jsonl` or `.parquet`, plain or compressed, with the
columns `sentence1`, `sentence2` and `label` (1 the same, 0 not).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tercet.tasks.corpus.sources.tables import checked_rows
from tercet.tasks.evaluation.suites.layout import content_digest, named_file, text_in
from tercet.tasks.evaluation.suites.task import Kind, Part, Scores, Task, distinct_cosines
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

_COLUMNS = ("sentence1", "sentence2", "label")


@dataclass(frozen=True)
class PairTask(Task):
    """Pairs with 1.0 if they mean the same and 0.0 if not, in the file's order."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    labels: npt.NDArray[np.float64]
    suite, split = "pairs", "test"

    def texts(self) -> list[str]:
        return [*self.first, *self.second]

    def digest(self) -> str:
        rows = zip(self.first, self.second, self.labels, strict=True)
        return content_digest((first, second, f"{label:g}") for first, second, label in rows)

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """Cosines with the labels."""
        what = f"Average precision on {self.name}"
        cosines = distinct_cosines(encoded, self.first, self.second, what)
        return [Scores(self.data(), "ap", (Part("all", cosines, self.labels),))]


def read_task(root: Path, name: str) -> PairTask:
    """The pairs of one file.

    Raises: BadInput that names file and line for a missing column, an empty text, a label that is
        neither 0 nor 1, and a file with pairs of one label only.
    """
    path = named_file(root, KIND.name, KIND.suffixes, name)
    pairs: list[tuple[str, str, float]] = []
    for where, values in checked_rows(path, _COLUMNS):
        first, second = (text_in(values, column, where) for column in _COLUMNS[:2])
        pairs.append((first, second, _label(values.get("label"), where)))
    labels = np.array([label for _, _, label in pairs])
    for label, what in ((1.0, "says the same (label 1)"), (0.0, "differs (label 0)")):
        if not (labels == label).any():
            raise BadInput(
                "no_rows",
                f"{path} holds {len(labels)} pairs and none that {what}: average precision needs "
                "both.",
            )
    return PairTask(name, tuple(f for f, _, _ in pairs), tuple(s for _, s, _ in pairs), labels)


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
