"""What one cell of a table holds: a text, a label, or nothing."""

import math

from tercet.models.text.words import encodable, fold
from tercet.tasks.corpus.sources.streams import SHOWN, RowFault

# Cells that hold nothing, as pandas reads them; those below whatever their case.
_NOTHING = frozenset(
    ("", "\\N", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "NA")
)
_NOTHING_IN_ANY_CASE = frozenset(("nan", "-nan", "null", "none", "n/a"))
_LONGEST = max(map(len, _NOTHING))


def missing(value: object) -> bool:
    """Whether a table's cell holds nothing: a null, NaN, blanks, or a word that stands for it."""
    if isinstance(value, float):
        return math.isnan(value)
    if not isinstance(value, str):
        return value is None
    said = value.strip()
    return len(said) <= _LONGEST and (said in _NOTHING or said.lower() in _NOTHING_IN_ANY_CASE)


def joined(value: object) -> object:
    """A list of texts as one text, a paragraph each; anything else as it is."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "\n\n".join(value)
    return value


def label_of(value: object) -> str | None:
    """A label as text; None where the row has none."""
    if missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with gaps
    plain = isinstance(value, str | int | float)
    return (fold(str(value)) or None) if plain and encodable(str(value)) else None


def text_fault(values: dict[str, object], column: str) -> RowFault | None:
    """Why the column's value in a row is not a usable text, or None if it is."""
    value = values.get(column)
    if not isinstance(value, str):
        found = "nothing" if value is None else f"a value of type {type(value).__name__}"
        return "missing_text", f"column {column!r} holds {found}", ""
    if not encodable(value):
        shown = value[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        return "not_utf8", f"column {column!r} is not valid Unicode", shown
    if not fold(value):
        return "missing_text", f"column {column!r} is blank", ""
    return None
