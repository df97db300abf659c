"""Rows of tables with columns that a kind of tasks needs; its faults are errors.

Apart from `layout`, so that what reads no tables does not depend on how they are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tercet.tasks.corpus.sources import tables
from tercet.tasks.evaluation.suites.layout import is_text
from tercet.tasks.stage import BadInput

# Longer than any row, such as a query with its candidates, in bytes.
_MAX_BYTES = 1 << 26


def table_rows(
    path: Path, needed: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The values of each row of a table by column, with the row's place for messages.

    Raises: BadInput for a column that is not there, and for a row that cannot be read.
    """
    names = tables.columns_of(path, _MAX_BYTES) if needed else []
    missing = [column for column in needed if column not in names]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]!r}: it needs {', '.join(needed)}.")
    wanted = [*needed, *(column for column in optional if column in names)]
    for row in tables.rows(path, _MAX_BYTES, wanted or None):
        where = f"{path}, line {row.number}"
        if row.fault is not None:
            raise BadInput(f"{where}: {row.fault[1]}.")
        yield where, row.values


def text_in(values: Mapping[str, Any], column: str, where: str) -> str:
    """The text in a row's column. Raises BadInput if there is none."""
    value = values.get(column)
    if not is_text(value):
        raise BadInput(f"{where}: {column} holds no text.")
    return value
