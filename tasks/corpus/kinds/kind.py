"""What a kind of labelled rows is: its columns, what becomes of a row, how rows are combined."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Labelled(NamedTuple):
    """What one row of a source says. None: nothing of the kind.

    word: whatever else the kind's `combine` needs to know of the row (a class, an entry).
    """

    anchor: str
    positive: str | None = None
    negative: str | None = None
    label: float | None = None
    word: str | None = None


class Bad(NamedTuple):
    """Why a row cannot be used: a reason of `rejects`, and the particulars."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Kind:
    """One kind of labelled rows.

    texts: columns that must hold a text in every row; they come folded.
    lists: those of them that may also hold a list of texts.
    layouts: how files usually call the kind's columns (ours → theirs); the first one whose columns
        are all there is taken where the recipe names none.
    row: makes the row of the values by our names, or several.
    optional: columns that a layout may name and a file may lack.
    unread: columns that would change the rows' meaning if a layout left them unread; finding one is
        an error.
    combine: SQL over the table `read(number, anchor, positive, negative, label, word)` of all rows,
        in DuckDB: the rows to keep as (number, anchor, positive, negative, label, entries) and, as
        (number, …, reason, detail), those to reject. None: each row by itself.
    """

    texts: tuple[str, ...]
    layouts: Sequence[Mapping[str, str]]
    row: Callable[[Mapping[str, Any]], Labelled | list[Labelled] | Bad]
    lists: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    combine: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the kind, by our names."""
        return tuple(dict.fromkeys(name for layout in self.layouts for name in layout))


def number(value: Any) -> float | None:
    """The value as a finite number, from a number or its spelling; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def shown(value: Any) -> str:
    """A value as shown in a reject's detail."""
    return repr(value)[:60]
