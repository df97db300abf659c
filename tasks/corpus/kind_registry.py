"""The kinds of labelled rows by name. A new one is a `Kind` in `kinds.py`, and a line here."""

from collections.abc import Mapping

from tercet.tasks.corpus import kinds
from tercet.tasks.corpus.kinds import Kind

UNVERSIONED = True

KINDS: Mapping[str, Kind] = {
    "triplets": kinds.TRIPLETS,
    "pairs": kinds.PAIRS,
    "scored": kinds.SCORED,
    "definitions": kinds.DEFINITIONS,
    "entailment": kinds.ENTAILMENT,
}


def columns_fault(name: str, columns: Mapping[str, str]) -> str | None:
    """The fault of the columns that a recipe names for this kind, or None."""
    kind = KINDS[name]
    for column in columns:
        if column not in kind.columns:
            listed = ", ".join(kind.columns)
            return f"kind: {name} has no column {column!r}; its columns are {listed}"
    missing = [n for n in kind.columns if n not in columns and n not in kind.optional]
    if columns and missing:
        return f"columns must name {', '.join(missing)} as well, or no column at all"
    return None
