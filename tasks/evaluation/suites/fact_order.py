"""Cases of fact order: a sentence, a rewording of it, and the same sentence with a fact changed.

A case is in order if the encoder puts the rewording nearer to the sentence than the changed one. A
file (`.tsv`, `.csv`, `.jsonl` or `.parquet`, plain or compressed) has the columns `anchor`,
`rewording`, `changed` and `kind` (of the change), and may have `split`: `dev` or `test`. Without
this column all cases are of the test split.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models import seeding
from tercet.models.measures import metrics
from tercet.tasks.corpus.sources.tables import checked_rows
from tercet.tasks.evaluation.suites.layout import (
    Split,
    content_digest,
    locate,
    text_in,
)
from tercet.tasks.evaluation.suites.task import Part, Scores, Task
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

SUITE = "fact_order"

_TEXTS = ("anchor", "rewording", "changed")
_NEEDED = (*_TEXTS, "kind")
_SPLITS: tuple[Split, ...] = ("test", "dev")
# Names that subsets of the table `evaluations` use otherwise.
_RESERVED = ("all", "mean", "wmean", "dev", "test")


@dataclass(frozen=True)
class OrderTask(Task):
    """The cases of one split of a file, in its order. kinds: the kind of each case's change."""

    name: str
    split: Split
    anchors: tuple[str, ...]
    rewordings: tuple[str, ...]
    changed: tuple[str, ...]
    kinds: tuple[str, ...]
    suite = SUITE

    def texts(self) -> list[str]:
        return [*self.anchors, *self.rewordings, *self.changed]

    def digest(self) -> str:
        columns = (self.anchors, self.rewordings, self.changed, self.kinds)
        return content_digest(zip(*columns, strict=True))

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """For each kind of change, whether each case is in order."""
        sides = [encoded.of(texts) for texts in (self.anchors, self.rewordings, self.changed)]
        values = metrics.in_order(*sides)
        anchors, kinds = seeding.text_ids(self.anchors), np.array(self.kinds)
        parts = [
            Part(kind, values[kinds == kind], anchors=anchors[kinds == kind])
            for kind in dict.fromkeys(self.kinds)
        ]
        return [Scores(self.data(), "accuracy", tuple(parts))]


def name_after(file: str) -> str:
    """The task's name for a file that is given without a name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", Path(file).name.split(".")[0]) or SUITE


def find_case_files(files: Mapping[str, str]) -> dict[str, Path]:
    """The files by their names among a stage's externals. Raises BadInput."""
    return {f"{SUITE}/{name}": _located(file) for name, file in files.items()}


def _located(file: str) -> Path:
    return locate(file, f"evaluate.{SUITE}", f"the columns {', '.join(_NEEDED)}")


def read_cases(
    files: Mapping[str, str], splits: Sequence[Split], required: bool = True
) -> list[OrderTask]:
    """The cases of these splits, one task for each file and split, test before dev.

    files: by the names of their tasks. required: a file without a case in any of the splits is
        an error; otherwise it is left out.
    Raises: BadInput that names file and line of what cannot be used.
    """
    tasks = []
    for name, file in files.items():
        cases = _cases(_located(file))
        chosen = [split for split in _SPLITS if split in splits and cases[split]]
        if required and not chosen:
            raise BadInput(
                "no_rows",
                f"{file} has no case of split {' or '.join(splits)}: give it a column `split`, or "
                f"name another split in evaluate.splits.",
            )
        tasks += [
            OrderTask(name, split, *map(tuple, zip(*cases[split], strict=True))) for split in chosen
        ]
    return tasks


def _cases(path: Path) -> dict[Split, list[tuple[str, str, str, str]]]:
    cases: dict[Split, list[tuple[str, str, str, str]]] = {"test": [], "dev": []}
    for where, values in checked_rows(path, _NEEDED, ("split",)):
        anchor, rewording, changed, kind = (text_in(values, column, where) for column in _NEEDED)
        if len({anchor, rewording, changed}) < len(_TEXTS):
            raise BadInput(
                "bad_row", f"{where}: {', '.join(_TEXTS)} must be three different texts."
            )
        if kind in _RESERVED:
            raise BadInput(
                "bad_row", f"{where}: {kind!r} cannot be the name of a kind: take another."
            )
        split = values.get("split", "test")
        if split not in _SPLITS:
            raise BadInput("bad_row", f"{where}: the split {split!r} is neither dev nor test.")
        cases[split].append((anchor, rewording, changed, kind))
    if not any(cases.values()):
        raise BadInput("no_rows", f"{path} holds no case: there is nothing to evaluate on.")
    return cases
