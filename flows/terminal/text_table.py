"""Rows as text on a terminal: a table if the columns fit, otherwise one record after another."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from tercet.flows.formatting import printable

# No text column gets narrower than this; rows that still do not fit are shown as records.
NARROWEST = 16
MOST_LINES = 4
NULL = "·"


def terminal_width() -> int | None:
    """The terminal's width in columns, or None if the output goes elsewhere and is not cut."""
    is_told = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    return shutil.get_terminal_size((100, 24)).columns if is_told else None


def render(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None = None,
    right: Sequence[bool] | None = None,
) -> tuple[list[str], bool]:
    """The lines of a table, and whether any text was cut to fit.

    Number columns, or the columns marked in `right`, are right-aligned. Texts wider than their
    share of `width` are wrapped to at most `MOST_LINES` lines. Without `width` nothing is wrapped
    or cut.
    """
    texts = [[cell(value) for value in row] for row in rows]
    if right is None:
        right = [_numeric([row[i] for row in rows]) for i in range(len(columns))]
    natural = [
        max([cell_len(name), *(cell_len(row[i]) for row in texts)])
        for i, name in enumerate(columns)
    ]
    widths = _fit(natural, columns, right, width)
    if widths is None:
        assert width is not None
        return _records(columns, texts, width)
    cut = False
    lines = [_line(columns, widths, right), _line(["─" * w for w in widths], widths, right)]
    for row in texts:
        blocks = []
        for text, room in zip(row, widths, strict=True):
            block, shortened = _wrapped(text, room)
            blocks.append(block)
            cut = cut or shortened
        for i in range(max(len(block) for block in blocks)):
            parts = [block[i] if i < len(block) else "" for block in blocks]
            lines.append(_line(parts, widths, right))
    return lines, cut


def cell(value: Any) -> str:
    """A value in one line, with control characters escaped."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        # A struct's empty members would only fill the line.
        value = {key: member for key, member in value.items() if member is not None}
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def _numeric(values: Sequence[Any]) -> bool:
    present = [v for v in values if v is not None]
    return bool(present) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in present
    )


def _fit(
    natural: Sequence[int], columns: Sequence[str], right: Sequence[bool], width: int | None
) -> list[int] | None:
    """Widths of the columns, the widest narrowed first; None if they cannot fit."""
    widths = list(natural)
    if width is None:
        return widths
    least = [
        w if right[i] else min(w, max(NARROWEST, cell_len(columns[i])))
        for i, w in enumerate(natural)
    ]
    room = width - 2 * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        i = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        rest = [w for j, w in enumerate(widths) if j != i and widths[j] > least[j]]
        # Narrow the widest column to the next widest, but no further than needed.
        step = widths[i] - max([least[i], *(w for w in rest if w < widths[i])])
        widths[i] -= max(1, min(step, sum(widths) - room))
    return widths


def _wrapped(text: str, room: int) -> tuple[list[str], bool]:
    if cell_len(text) <= room:
        return [text], False
    # Wide characters take two cells; a text with a wide character is wrapped as if all its
    # characters were wide.
    chars = room if cell_len(text) == len(text) else max(1, room // 2)
    lines = textwrap.wrap(text, chars, max_lines=MOST_LINES, placeholder="…")
    return lines or [""], bool(lines) and lines[-1].endswith("…") and not text.endswith("…")


def _line(parts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        (" " * (w - cell_len(part)) + part) if r else (part + " " * (w - cell_len(part)))
        for part, w, r in zip(parts, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _records(
    columns: Sequence[str], texts: Sequence[Sequence[str]], width: int
) -> tuple[list[str], bool]:
    label = max(cell_len(name) for name in columns)
    lines, cut = [], False
    for number, row in enumerate(texts, 1):
        lines.append(f"── row {number} ".ljust(min(width, 40), "─"))
        for name, text in zip(columns, row, strict=True):
            block, shortened = _wrapped(text, max(width - label - 2, NARROWEST))
            cut = cut or shortened
            lines.append(f"{name}{' ' * (label - cell_len(name))}  {block[0]}".rstrip())
            lines += [" " * (label + 2) + rest for rest in block[1:]]
    return lines, cut
