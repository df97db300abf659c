"""Rows of `rejects`: what a stage leaves out, and why.

A row at which Tercet's code fails is refused; the other rows of its part go on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.errors import Unusable
from tercet.storage.store import StoreError
from tercet.tasks.stage import REJECTS, BadInput, Interrupted

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
        """Adds a row."""
        self.rows.append((row_id, reason, detail, text[:SHOWN]))
        if len(self.rows) >= self.limit:
            self.flush()

    def flush(self) -> None:
        """Emits the gathered rows."""
        if self.rows:
            self.emit("rejects", rejects(self.stage, *map(list, zip(*self.rows, strict=True))))
            self.rows = []


def rejects(stage: str, row_ids: Any, reason: Texts, detail: Texts, text: Texts) -> pa.Table:
    """Rows of `rejects`, one for each of the ids.

    row_ids: ids of the stage's rows, None for a fault that belongs to no row.
    reason, detail, text: one for each row, or one for all rows.
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


Made = TypeVar("Made")
Rows = npt.NDArray[Any]

REASON = "error"
# If more rows than this fail at once, the rows are not at fault.
MOST = 100
_NOT_OF_ROWS = (BadInput, Interrupted, MemoryError, OSError, StoreError, Unusable)


def isolated(
    rows: Rows, make: Callable[[Rows], Made], refuse: Callable[[Any, Exception], None]
) -> Iterator[Made]:
    """Yields `make` of the rows; if it raises, the rows are halved, down to those at fault.

    rows: numbers of rows, ascending; what `make` returns for some rows must not depend on other
    rows.
    refuse: called with each row at which `make` raises, and the exception.

    Re-raises an exception of `make` that is no row's fault (input, store, memory), or if more than
    `MOST` rows fail.
    """
    waiting = [rows]
    broken = 0
    while waiting:
        some = waiting.pop()
        try:
            output = make(some)
        except _NOT_OF_ROWS:
            raise
        except Exception as error:
            if len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
                continue
            broken += 1
            if broken > MOST:
                raise
            if len(some):
                refuse(some[0], error)
        else:
            yield output


def refused(stage: str, row_id: int, error: Exception, text: str | None, what: str) -> pa.Table:
    """The row of `rejects` for one at which `what` (a method, say) failed."""
    message = " ".join(str(error).split())[:200]
    return rejects(stage, [row_id], REASON, f"{what}: {type(error).__name__}: {message}", text)


def numbers(count: int) -> Rows:
    """The row numbers from 0."""
    return np.arange(count)
