"""What a kind of labelled rows is: its columns, what becomes of a row, how rows are combined."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tercet.models.text.words import fold
from tercet.tasks.corpus.sources.cells import text_fault
from tercet.tasks.corpus.sources.tables import Row


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


def layout_of(kind: Kind, columns: Collection[str]) -> dict[str, str] | None:
    """The first of the kind's layouts whose columns are all there, ours to theirs."""
    for layout in kind.layouts:
        found = {ours: theirs for ours, theirs in layout.items() if theirs in columns}
        if all(ours in found for ours in layout if ours not in kind.optional):
            return found
    return None


def made_of(kind: Kind, columns: Mapping[str, str], row: Row) -> list[Labelled] | tuple[Bad, str]:
    """The row as its kind has it, or its fault with a text to show; columns: ours to theirs."""
    if row.fault:
        reason, detail, text = row.fault
        return Bad(reason, detail), text
    values: dict[str, Any] = {ours: row.values.get(theirs) for ours, theirs in columns.items()}
    for ours in kind.texts:
        given, column = values[ours], columns[ours]
        listed = ours in kind.lists and isinstance(given, list) and len(given) > 0
        for value in given if listed else [given]:
            if fault := text_fault({column: value}, column):
                texts = [values[name] for name in kind.texts if isinstance(values[name], str)]
                # A lone surrogate cannot be written down.
                shown = fold(" ".join(texts)).encode("utf-8", "replace").decode("utf-8")
                return Bad(fault[0], fault[1]), fault[2] or shown
        values[ours] = list(map(fold, given)) if listed else fold(given)
    made = kind.row(values)
    if isinstance(made, Bad):
        return made, str(values[kind.texts[0]])
    return made if isinstance(made, list) else [made]
