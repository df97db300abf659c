"""A row at which our own code breaks is refused; the other rows of its part go on."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.llm.errors import Unusable
from tercet.storage.store import StoreError
from tercet.tasks.stage import REJECTS, BadInput, Interrupted

Made = TypeVar("Made")
Rows = npt.NDArray[Any]

REASON = "error"
# More broken rows than this at once are no fault of rows.
MOST = 100
_NOT_OF_ROWS = (BadInput, Interrupted, MemoryError, OSError, StoreError, Unusable)


def isolated(
    rows: Rows, make: Callable[[Rows], Made], refuse: Callable[[Any, Exception], None]
) -> Iterator[Made]:
    """What `make` gives for the rows; where it raises, for halves of them, down to single rows.

    rows: numbers of rows, ascending; what is made of some of them must not depend on the others.
    refuse: is called with each row at which `make` raises, and what it raised.

    Raises what `make` raises where that is no matter of rows (input, store, memory), and where
    more than `MOST` rows break it.
    """
    waiting = [rows]
    broken = 0
    while waiting:
        some = waiting.pop()
        try:
            made = make(some)
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
            yield made


def refused(stage: str, row_id: int, error: Exception, text: str | None, what: str) -> pa.Table:
    """The row of `rejects` for one that broke `what` (a method, say)."""
    said = " ".join(str(error).split())[:200]
    row = {
        "stage": stage,
        "row_id": row_id,
        "reason": REASON,
        "detail": f"{what}: {type(error).__name__}: {said}",
        "text": text,
    }
    return pa.Table.from_pylist([row], schema=REJECTS)


def numbers(count: int) -> Rows:
    """The numbers of so many rows."""
    return np.arange(count)
