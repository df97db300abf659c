"""What a page is made of: a few kinds of blocks that the template knows how to show.

Texts are plain. Of a lead, a note, a caption or a summary the words in `backticks` are shown as
code; cells, facts and items are shown as they are, so that a corpus can say what it likes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

Spec = Mapping[str, Any]
Cell = str | int | float | None


@dataclass(frozen=True)
class Note:
    """A sentence or two. tone: `missing` where there is nothing to show, `warning`,
    `head`, or `verdict`."""

    kind: ClassVar[str] = "note"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Fact:
    """One figure, large, with its name and a word on it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Figures in a row."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Table:
    """Rows under names. align: a letter a column, `l`, `r` or `n`
    (left, never broken); by default numbers stand right.

    strong: the numbers of rows that stand out.
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
    """A Vega-Lite spec (see `charts`), a caption that says what to see, and words in its place."""

    kind: ClassVar[str] = "chart"
    spec: Spec
    caption: str
    alt: str
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Blocks side by side where the screen is wide enough. least: rem that each needs."""

    kind: ClassVar[str] = "grid"
    blocks: Sequence["Block"]
    caption: str = ""
    least: int = 18


@dataclass(frozen=True)
class Item:
    """A text among others: what it is, a line above it, a line below it."""

    text: str
    above: str = ""
    below: str = ""
    tone: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Items:
    """Texts one below the other."""

    kind: ClassVar[str] = "items"
    items: Sequence[Item]
    title: str = ""


@dataclass(frozen=True)
class Panel:
    """What one tab shows."""

    name: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Tabs:
    """One panel at a time; printed, all of them."""

    kind: ClassVar[str] = "tabs"
    label: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Code:
    """Text of a fixed width."""

    kind: ClassVar[str] = "code"
    text: str
    label: str = ""


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when asked for."""

    kind: ClassVar[str] = "fold"
    summary: str
    blocks: Sequence["Block"]


Block = Note | Facts | Table | Chart | Grid | Items | Tabs | Code | Fold


@dataclass(frozen=True)
class Section:
    """A part of the page with its own entry in the contents."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    anchor: str = field(default="")
