"""The blocks of a page, which the template renders.

Texts are plain. In leads, notes, captions and summaries, words in `backticks` are shown as code;
cells, facts and items are shown verbatim, since they may come from a corpus.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Spec = Mapping[str, Any]
Cell = str | int | float | None


@dataclass(frozen=True)
class Note:
    """A sentence or two. tone: `missing` if there is nothing to show, `warning`,
    `head`, or `verdict`."""

    kind: ClassVar[str] = "note"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Fact:
    """One large figure, with its name and a short note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table. align: one letter per column, `l`, `r` or `n` (left, never wrapped);
    by default numbers are right-aligned.

    strong: the indices of highlighted rows.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    align: str = ""
    strong: frozenset[int] = frozenset()

    def side(self, column: int) -> str:
        """`l`, `r` or `n`."""
        if self.align:
            return self.align[column]
        cells = [row[column] for row in self.rows if row[column] is not None]
        return "r" if cells and all(isinstance(cell, int | float) for cell in cells) else "l"


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite spec (see `charts`), a caption on how to read it, and a text alternative."""

    kind: ClassVar[str] = "chart"
    spec: Spec
    caption: str
    alt: str
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Blocks side by side if the screen is wide enough. least: the width of each in rem."""

    kind: ClassVar[str] = "grid"
    blocks: Sequence["Block"]
    caption: str = ""
    least: int = 18


@dataclass(frozen=True)
class Item:
    """A text in a list, with a tag, a line above it and a line below it."""

    text: str
    above: str = ""
    below: str = ""
    tone: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Items:
    """A list of texts."""

    kind: ClassVar[str] = "items"
    items: Sequence[Item]
    title: str = ""


@dataclass(frozen=True)
class Panel:
    """The content of one tab."""

    name: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Tabs:
    """Shows one panel at a time; in print, all of them."""

    kind: ClassVar[str] = "tabs"
    label: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Code:
    """Text in a fixed-width font."""

    kind: ClassVar[str] = "code"
    text: str
    label: str = ""


@dataclass(frozen=True)
class Fold:
    """Blocks that are folded away until opened."""

    kind: ClassVar[str] = "fold"
    summary: str
    blocks: Sequence["Block"]


Block = Note | Table | Chart | Grid | Items | Tabs | Code | Fold


@dataclass(frozen=True)
class Section:
    """A section of the page with its own entry in the contents."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    anchor: str = ""
