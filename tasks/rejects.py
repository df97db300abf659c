"""Rows of `rejects`: what a stage leaves out, and why."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tercet.tasks.stage import REJECTS

Texts: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[str | None] | str | None
SHOWN = 200  # characters of a text that are kept


class Rejects:
    """Rejects of one stage, gathered row by row and emitted in lots of `rows`."""

    def __init__(self, stage: str, emit: Callable[[str, pa.Table], None], rows: int) -> None:
        self.stage = stage
        self.emit = emit
        self.limit = rows
        self.rows: list[tuple[int, str, str, str]] = []

    def add(self, row_id: int, reason: str, detail: str, text: str) -> None:
        """One more row."""
        self.rows.append((row_id, reason, detail, text[:SHOWN]))
        if len(self.rows) >= self.limit:
            self.flush()

    def flush(self) -> None:
        """Emit what is gathered."""
        if self.rows:
            self.emit("rejects", rejects(self.stage, *map(list, zip(*self.rows, strict=True))))
            self.rows = []


def rejects(stage: str, row_ids: Any, reason: Texts, detail: Texts, text: Texts) -> pa.Table:
    """Rows of `rejects`, one for each of the ids.

    row_ids: what the stage's rows are known by, None for a fault that belongs to no row.
    reason, detail, text: one for each row, or one for all of them.
    """
    arrow = isinstance(row_ids, pa.Array | pa.ChunkedArray)
    ids = row_ids if arrow else pa.array(row_ids, pa.uint64())
    columns = [stage, reason, detail, text]
    stages, *others = (_column(column, len(ids)) for column in columns)
    return pa.Table.from_arrays([stages, ids, *others], REJECTS.names).cast(REJECTS)


def _column(values: Texts, rows: int) -> pa.Array | pa.ChunkedArray:
    if values is None:
        return pa.nulls(rows, pa.string())
    if isinstance(values, str):
        return pa.repeat(pa.scalar(values), rows)
    return (
        values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, pa.string())
    )
