"""A measure: one table of figures, defined once and shown alike wherever figures are shown.

The terminal, a page, Markdown and records each have one way to show a `Table`. Only this module
drops the intervals of figures with too few questions, and marks figures of texts in the training.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import duckdb

from tercet.flows.formatting import format_number, format_range
from tercet.flows.pages import blocks
from tercet.flows.pages.blocks import Cell
from tercet.flows.recipe.secrets import public_values
from tercet.flows.results.metric_names import (
    TOO_FEW,
    TRANSDUCTIVE,
    WHY_TOO_FEW,
    WHY_TRANSDUCTIVE,
    is_few,
)
from tercet.flows.results.queries import sql_fault
from tercet.flows.results.subject import Row, Subject
from tercet.flows.terminal import text_table
from tercet.models.errors import Unusable
from tercet.models.plugins import package_of

# Where a row or a column is shown: everywhere; on pages and in Markdown; last, a row that a page
# folds away, or a column in Markdown alone.
FIRST, ON_PAGES, FOLDED = range(3)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: its key in the rows. title: its head. digits: decimals of a number; None shows values
    unchanged. sign: `+` for a difference. interval: whether the interval from `{key}_low` to
    `{key}_high` follows the number. depth: FIRST, ON_PAGES or FOLDED.
    """

    key: str
    title: str
    digits: int | None = None
    sign: str = ""
    interval: bool = False
    depth: int = FIRST

    def cell(self, row: Row) -> Cell:
        """The row's cell, as text or as a number."""
        value = row.get(self.key)
        if value is None or self.digits is None:
            return value
        number = format_number(value, self.digits, self.sign)
        if not self.interval:
            return number
        low, high = row.get(f"{self.key}_low"), row.get(f"{self.key}_high")
        ends = TOO_FEW if _few(row) else format_range(low, high, self.digits, self.sign)
        return number if ends is None else f"{number} ({ends})"


@dataclass(frozen=True)
class Table:
    """Rows under columns, with a caption and sentences about them.

    Keys of a row that are not columns: n: the number of questions behind its figures; few: whether
    these are too few, by default by n; transductive: whether its texts were in the training;
    strong: whether it stands out; depth: FIRST (the default), ON_PAGES or FOLDED.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str = ""
    findings: Sequence[str] = ()

    @cached_property
    def marks(self) -> list[str]:
        """The meanings of the marks in its cells."""
        shown = [row for row in self.rows if row.get("depth", FIRST) < FOLDED]
        marks = {
            WHY_TOO_FEW: any(
                _few(row) and row.get(column.key) is not None
                for row in shown
                for column in self.columns
                if column.interval
            ),
            WHY_TRANSDUCTIVE: any(row.get("transductive") for row in shown),
        }
        return [sentence for sentence, needed in marks.items() if needed]

    def text(self, width: int | None) -> list[str]:
        """Lines for a terminal: the table, then marks and findings."""
        columns, rows = self._cells(FIRST, FIRST)
        right = [self._right(column) for column in columns]
        lines = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
        heads = [column.title for column in columns]
        return [*text_table.render(heads, lines, width, right)[0], *self.marks, *self.findings]

    def on_page(self, of_run: str = "") -> list[blocks.Block]:
        """Blocks for a page. of_run: the first words of the caption."""
        caption = " ".join(filter(None, [of_run, self.caption, *self.marks]))
        shown: list[blocks.Block] = [self._block(ON_PAGES, caption)]
        folded = sum(row.get("depth") == FOLDED for row in self.rows)
        if folded == len(self.rows):
            shown = [self._block(FOLDED, caption)]
        elif folded:
            rest = [row for row in self.rows if row.get("depth") == FOLDED]
            table = Table(self.columns, rest)._block(FOLDED, "")
            shown.append(blocks.Fold(f"{folded} more: parts of sets", [table]))
        return [*shown, *(blocks.Note(finding) for finding in self.findings)]

    def markdown(self) -> str:
        """A Markdown table, then marks and findings."""
        columns, rows = self._cells(ON_PAGES, FOLDED)
        heads = [column.title for column in columns]
        notes = [markdown_cell(note) for note in [*self.marks, *self.findings]]
        return "\n\n".join([markdown_table(heads, rows), *notes])

    def records(self) -> list[Row]:
        """All rows as numbers: the columns and the ends of intervals, by key."""
        keys = [
            key
            for column in self.columns
            for key in (column.key, *(f"{column.key}{end}" for end in _ENDS if column.interval))
        ]
        return [{key: row.get(key) for key in keys} for row in self.rows]

    def _cells(self, depth: int, of_columns: int) -> tuple[list[Column], list[list[Cell]]]:
        """The columns up to this depth with any value, and the cells under them."""
        rows = [row for row in self.rows if row.get("depth", FIRST) <= depth]
        columns = [
            column
            for column in self.columns
            if column.depth <= of_columns and any(row.get(column.key) is not None for row in rows)
        ]
        cells = [[column.cell(row) for column in columns] for row in rows]
        for row, line in zip(rows, cells, strict=True):
            if row.get("transductive"):
                line[0] = f"{line[0]}{TRANSDUCTIVE}"
        return columns, cells

    def _block(self, depth: int, caption: str) -> blocks.Table:
        columns, rows = self._cells(depth, ON_PAGES)
        strong = [row for row in self.rows if row.get("depth", FIRST) <= depth]
        return blocks.Table(
            [column.title for column in columns],
            [[public_values(cell) for cell in row] for row in rows],
            caption,
            "".join("n" if c.interval else "r" if self._right(c) else "l" for c in columns),
            frozenset(place for place, row in enumerate(strong) if row.get("strong")),
        )

    def _right(self, column: Column) -> bool:
        values = [row.get(column.key) for row in self.rows]
        numbers = all(value is None or isinstance(value, int | float) for value in values)
        return numbers and not column.interval


_ENDS = ("_low", "_high")
Rows: TypeAlias = Sequence[Row]


@dataclass(frozen=True)
class Measure:
    """One table of figures: where it comes from, how it reads, and what follows from it.

    lead: a paragraph above it on a page. absent: why there is none. rows: SQL over a run's tables,
    or a function for what SQL cannot express; $run is the run's id, $seed and $decides are its
    recipe's `seed` and `select.p_true`. Keys that are not columns: see `Table`.
    caption: may name values of the first row in braces. findings: sentences below the table.
    brief: whether the summary at a run's end shows it.
    module: the installed package's module that adds it; empty for ours.
    """

    name: str
    title: str
    lead: str
    absent: str
    rows: str | Callable[[Subject], Rows]
    columns: Sequence[Column]
    caption: str = ""
    findings: Callable[[Subject, Rows], list[str]] = lambda subject, rows: []
    brief: bool = True
    module: str = ""

    def read(self, subject: Subject) -> Table | None:
        """The table of this run; None if it has no such figures."""
        rows = self._rows(subject)
        if not rows:
            return None
        caption = self.caption.format_map(rows[0])
        return Table(self.columns, rows, caption, self.findings(subject, rows))

    def _rows(self, subject: Subject) -> Rows:
        if not isinstance(self.rows, str):
            return self.rows(subject)
        values = {
            "run": subject.run_id,
            "seed": subject.recipe.get("seed"),
            "decides": (subject.recipe.get("select") or {}).get("p_true"),
        }
        named = {name: value for name, value in values.items() if f"${name}" in self.rows}
        try:
            return subject.rows(self.rows, named)
        except duckdb.Error as error:
            if not self.module:
                raise
            raise Unusable(
                "bad_query",
                f"the measure {self.name!r} of the installed package {package_of(self.module)} "
                f"cannot be read ({sql_fault(error)}): fix that package, or uninstall it",
            ) from error


def _few(row: Row) -> bool:
    few = row.get("few")
    return is_few(row.get("n")) if few is None else bool(few)


def markdown_cell(value: Any) -> str:
    """A value in one line of Markdown, with bars and markup escaped, and without private paths."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(public_values(str(value)).split())
    return re.sub(r"([\\|<>*_`\[\]#])", r"\\\1", text)


def markdown_table(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows."""
    heads, lines = list(titles), [[markdown_cell(value) for value in row] for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines])
