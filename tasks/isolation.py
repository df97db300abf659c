"""A row at which our own code fails is refused; the other rows of its part go on."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.errors import Unusable
from tercet.storage.store import StoreError
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Interrupted

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

    rows: numbers of rows, ascending; what is made of some of them must not depend on the others.
    refuse: called with each row at which `make` raises, and the exception.

    Raises what `make` raises where no row is at fault (input, store, memory), or where more than
    `MOST` rows fail.
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
    """The row of `rejects` for one at which `what` (a method, say) failed."""
    said = " ".join(str(error).split())[:200]
    return rejects(stage, [row_id], REASON, f"{what}: {type(error).__name__}: {said}", text)


def numbers(count: int) -> Rows:
    """The row numbers from 0."""
    return np.arange(count)
