"""A run as the report asks it: its tables by SQL, its notes in the store, a short name."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import duckdb

from tercet.flows.results.queries import connect
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store

Row = dict[str, Any]

LONGEST = 400


@dataclass(frozen=True)
class Subject:
    """One run. name: what charts and tables call it, A or B where there are two."""

    store: Store
    run: Mapping[str, Any]
    name: str
    connection: duckdb.DuckDBPyConnection

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Rows of a query over this run's tables; a number that is none (NaN) is None."""
        found = self.connection.execute(query, dict(parameters or {}))
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, map(_known, row), strict=True)) for row in found.fetchall()]

    def value(self, query: str) -> Any:
        """The one value of a query."""
        row = self.connection.execute(query).fetchone()
        return row[0] if row else None

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where an older store does not know it."""
        return int(self.value(f"SELECT count(*) FROM {table}")) if table in self.tables else 0

    @cached_property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The columns of each table: those of older stores may lack some."""
        found: dict[str, set[str]] = {}
        for row in self.rows(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'main'"
        ):
            found.setdefault(row["table_name"], set()).add(row["column_name"])
        return {table: frozenset(columns) for table, columns in found.items()}

    def has(self, table: str, column: str) -> bool:
        """Whether the table has such a column here."""
        return column in self.tables.get(table, frozenset())

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The recipe as the run noted it."""
        found: Mapping[str, Any] = self.run.get("recipe") or {}
        return found

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """What the run came to, in its order."""
        found: Sequence[Mapping[str, Any]] = self.run["steps"]
        return found

    def reached(self, stage: str) -> bool:
        """Whether the run came to a step of this stage."""
        return any(
            step.get("stage", step["step"].partition(".")[0]) == stage for step in self.steps
        )

    @property
    def seconds(self) -> float | None:
        """From the start to the end."""
        if not self.run["ended"]:
            return None
        began = datetime.fromisoformat(self.run["started"])
        return (datetime.fromisoformat(self.run["ended"]) - began).total_seconds()

    def manifest(self, step: str, version: str) -> Mapping[str, Any]:
        """What is noted of an artifact; nothing where it was removed."""
        return open_artifact(self.store, step, version).manifest() or {}


@contextmanager
def opened(store: Store, refs: Sequence[str | None]) -> Iterator[tuple[Subject, ...]]:
    """The runs that these names mean, one or two; None is the newest. Raises UnknownRef."""
    found = [runs.resolve_run(store, ref) for ref in refs]
    names = ("A", "B") if len(found) > 1 else ("run",)
    subjects = tuple(
        Subject(store, run, name, connect(store, str(run["run_id"])))
        for run, name in zip(found, names, strict=True)
    )
    try:
        yield subjects
    finally:
        for subject in subjects:
            subject.connection.close()


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def amount(value: float | int | None) -> str:
    """A count, short enough for a label."""
    return "–" if value is None else f"{int(value):,}"


def fixed(value: float | None, digits: int = 2) -> str | None:
    """A number with so many digits behind the point."""
    return None if value is None else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference with its sign."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    """A 95 % interval of a difference."""
    return "–" if low is None or high is None else f"{signed(low)} to {signed(high)}"


def short(text: str | None, most: int = LONGEST) -> str:
    """The text's beginning; nothing where there is none."""
    if text is None:
        return ""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def joined(*blocks: Any) -> list[Any]:
    """The blocks that there are."""
    return [block for block in blocks if block is not None]
