"""Cases of fact order: a sentence, a rewording of it, and the same sentence with a fact changed.

An encoder has a case in order if the rewording is nearer to the sentence than the changed one. A
file (`.tsv`, `.csv`, `.jsonl` or `.parquet`, plain or compressed) has the columns `anchor`,
`rewording`, `changed` and `kind` (of the change), and may have `split`: `dev` or `test`. Without
that column all cases are of the test split.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tercet.tasks.corpus.sources import tables
from tercet.tasks.evaluation.suites.layout import Split, content_digest, is_text
from tercet.tasks.package_files import PACKAGE, file_path
from tercet.tasks.stage import BadInput

SUITE = "fact_order"

_TEXTS = ("anchor", "rewording", "changed")
_NEEDED = (*_TEXTS, "kind")
_SPLITS: tuple[Split, ...] = ("test", "dev")
# Names of subsets with another meaning in the table `evaluations`.
_TAKEN = ("all", "mean", "wmean", "dev", "test")
# Longer than any case, in bytes.
_MAX_BYTES = 1 << 24


@dataclass(frozen=True)
class OrderTask:
    """The cases of one split of a file, in its order; kinds: of each case's change."""

    name: str
    split: Split
    anchors: tuple[str, ...]
    rewordings: tuple[str, ...]
    changed: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def title(self) -> str:
        """The task's name among the figures."""
        return self.name if self.split == "test" else f"{self.name} {self.split}"

    def texts(self) -> list[str]:
        """All anchors, then all rewordings, then all changed texts."""
        return [*self.anchors, *self.rewordings, *self.changed]

    def digest(self) -> str:
        """Digest over texts and kinds, 16 hex digits: the same for the same cases anywhere."""
        columns = (self.anchors, self.rewordings, self.changed, self.kinds)
        return content_digest(zip(*columns, strict=True))


def name_after(file: str) -> str:
    """The name of a task whose file was given without one."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", Path(file).name.split(".")[0]) or SUITE


def located(file: str) -> Path:
    """A file, or `package:PACKAGE/FILE`, one inside an installed package.

    Raises: BadInput if it does not exist.
    """
    path = file_path(file)
    if not path.is_file():
        raise BadInput(
            f"The file {file!r} of evaluate.fact_order does not exist: give the path of a table "
            f"with the columns {', '.join(_NEEDED)}, or {PACKAGE}PACKAGE/FILE."
        )
    return path


def find_case_files(files: Mapping[str, str]) -> dict[str, Path]:
    """The files by what they are called among a stage's externals. Raises BadInput."""
    return {f"{SUITE}/{name}": located(file) for name, file in files.items()}


def read_cases(
    files: Mapping[str, str], splits: Sequence[Split], required: bool = True
) -> list[OrderTask]:
    """The cases of these splits, one task for each file and split, test before dev.

    files: by the names of their tasks. required: a file without a case in any of the splits is
        an error; otherwise it is left out.
    Raises: BadInput that names file and line of what cannot be used.
    """
    found = []
    for name, file in files.items():
        cases = _cases(located(file))
        chosen = [split for split in _SPLITS if split in splits and cases[split]]
        if required and not chosen:
            raise BadInput(
                f"{file} has no case of split {' or '.join(splits)}: give it a column `split`, or "
                f"name another split in evaluate.splits."
            )
        found += [
            OrderTask(name, split, *map(tuple, zip(*cases[split], strict=True))) for split in chosen
        ]
    return found


def _cases(path: Path) -> dict[Split, list[tuple[str, str, str, str]]]:
    columns = tables.columns_of(path, _MAX_BYTES)
    missing = [column for column in _NEEDED if column not in columns]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]!r}: it needs {', '.join(_NEEDED)}.")
    wanted = [*_NEEDED, *(["split"] if "split" in columns else [])]
    found: dict[Split, list[tuple[str, str, str, str]]] = {"test": [], "dev": []}
    for row in tables.rows(path, _MAX_BYTES, wanted):
        where = f"{path}, line {row.number}"
        if row.fault is not None:
            raise BadInput(f"{where}: {row.fault[1]}.")
        anchor, rewording, changed, kind = (_text(row, column, where) for column in _NEEDED)
        if len({anchor, rewording, changed}) < len(_TEXTS):
            raise BadInput(f"{where}: {', '.join(_TEXTS)} must be three different texts.")
        if kind in _TAKEN:
            raise BadInput(f"{where}: {kind!r} cannot be the name of a kind: take another.")
        split = row.values.get("split", "test")
        if split not in _SPLITS:
            raise BadInput(f"{where}: the split {split!r} is neither dev nor test.")
        found[split].append((anchor, rewording, changed, kind))
    if not any(found.values()):
        raise BadInput(f"{path} holds no case: there is nothing to evaluate on.")
    return found


def _text(row: tables.Row, column: str, where: str) -> str:
    value = row.values.get(column)
    if not is_text(value):
        raise BadInput(f"{where}: {column} holds no text.")
    return value
