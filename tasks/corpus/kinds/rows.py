"""A table's rows as their kind has them: which columns they are read from, and what is at fault."""

from collections.abc import Collection, Mapping
from typing import Any

from tercet.models.text.unicode import fold
from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled
from tercet.tasks.corpus.sources.cells import text_fault
from tercet.tasks.corpus.sources.tables import Row


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
