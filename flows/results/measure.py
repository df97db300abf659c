"""A measure: one table of figures, defined once and shown alike wherever figures are shown.

The terminal, a page, Markdown and records each have one way to show a `Table`. Here alone a figure
of too few questions loses its interval, and one of texts that stood in training gets its mark.
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

# How far back a row or a column stands: everywhere; on pages and in Markdown; at last a row that a
# page folds away, or a column of Markdown alone.
FIRST, ON_PAGES, FOLDED = range(3)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: of the rows. title: its head. digits: decimals of a number; None shows values as they are.
    sign: `+` for a difference. interval: whether the interval from `key_low` to `key_high` stands
    behind the number. depth: FIRST, ON_PAGES or FOLDED.
    """

    key: str
    title: str
    digits: int | None = None
    sign: str = ""
    interval: bool = False
    depth: int = FIRST

    def cell(self, row: Row) -> Cell:
        """What stands in it, as text or as the number that it is."""
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
    """Rows under columns, and what is said of them.

    Some keys of a row are no columns. n: how many questions its figures are of; few: whether these
    are too few, by default by n; transductive: whether it is of texts that stood in training;
    strong: whether it stands out; depth: FIRST (the default), ON_PAGES or FOLDED.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str = ""
    findings: Sequence[str] = ()

    @cached_property
    def marks(self) -> list[str]:
        """What the marks in its cells mean."""
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
        """Lines for a terminal, with what is said of the rows below."""
        columns, rows = self._cells(FIRST, FIRST)
        right = [self._right(column) for column in columns]
        lines = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
        heads = [column.title for column in columns]
        return [*text_table.render(heads, lines, width, right)[0], *self.marks, *self.findings]

    def on_page(self, of_run: str = "") -> list[blocks.Block]:
        """For a page; of_run: what the caption begins with."""
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
        """A Markdown table, with what is said of the rows below."""
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


def _silent(subject: Subject, rows: Rows) -> list[str]:
    return []


@dataclass(frozen=True)
class Measure:
    """One table of figures: where it comes from, how it reads, and what follows from it.

    lead: on a page, above it. absent: why there is none. rows: SQL over a run's tables, or a
    function for what SQL cannot say; $run is the run's id, $seed and $decides are of its recipe
    (`seed`, `select.p_true`). Keys that are no columns: see `Table`.
    caption: may name values of the first row in braces. findings: sentences below the table.
    brief: whether the summary at a run's end shows it.
    module: of a measure that an installed package adds.
    """

    name: str
    title: str
    lead: str
    absent: str
    rows: str | Callable[[Subject], Rows]
    columns: Sequence[Column]
    caption: str = ""
    findings: Callable[[Subject, Rows], list[str]] = _silent
    brief: bool = True
    module: str = ""

    def read(self, subject: Subject) -> Table | None:
        """The table of this run; None where it has no such figures."""
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
    """A value in one line of Markdown, with bars and markup escaped, and nothing private."""
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
