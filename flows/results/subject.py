"""A run to report on: its tables by SQL, its records in the store, a short name."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, wraps
from typing import Any

import duckdb

from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.recipe.names import shipped_corpora
from tercet.flows.results.queries import connect, fetch_dicts
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store

Row = dict[str, Any]

# For a query's WITH: the sentences and passages that come with Tercet. Examples show the user's own
# first: `ORDER BY sentence_id IN (FROM shipped), …`.
SHIPPED = """shipped AS (
    SELECT sentence_id FROM sentences WHERE list_contains($shipped, corpus)
    UNION ALL SELECT passage_id FROM passages WHERE list_contains($shipped, corpus)
)"""


@dataclass(frozen=True)
class Subject:
    """One run. name: its label in charts and tables, A or B if there are two.

    model: the version of the encoder whose figures are read; None: the run's final encoder.
    """

    store: Store
    run: Mapping[str, Any]
    name: str
    connection: duckdb.DuckDBPyConnection
    model: str | None = None

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Rows of a query over this run's tables; NaN becomes None."""
        rows = fetch_dicts(self.connection, query, parameters)
        return [{name: _finite(value) for name, value in row.items()} for row in rows]

    def table(
        self,
        query: str,
        caption: str,
        align: str,
        parameters: Mapping[str, Any] | None = None,
    ) -> list[Block]:
        """The rows of a query as a table, whose heads are its columns' names; none without rows."""
        rows = self.rows(query, parameters)
        cells = [list(row.values()) for row in rows]
        return [Table(list(rows[0]), cells, caption, align)] if rows else []

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The recipe recorded with the run."""
        recorded: Mapping[str, Any] = self.run.get("recipe") or {}
        return recorded

    @cached_property
    def shipped(self) -> list[str]:
        """The names of the corpora that come with Tercet."""
        return shipped_corpora(self.recipe)

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """The steps that the run reached, in order."""
        reached: Sequence[Mapping[str, Any]] = self.run["steps"]
        return reached

    def reached(self, stage: str) -> bool:
        """Whether the run reached a step of this stage."""
        return any(
            step.get("stage", step["step"].partition(".")[0]) == stage for step in self.steps
        )

    @property
    def seconds(self) -> float | None:
        """Seconds from the run's start to its end."""
        if not self.run["ended"]:
            return None
        began = datetime.fromisoformat(self.run["started"])
        return (datetime.fromisoformat(self.run["ended"]) - began).total_seconds()

    @property
    def made_in(self) -> float | None:
        """Total seconds to make all artifacts of the run; None if unknown."""
        manifests = [self.manifest(step["step"], str(step["version"])) for step in self.steps]
        seconds = [float(one["seconds"]) for one in manifests if one.get("seconds") is not None]
        return sum(seconds) if seconds else None

    def manifest(self, step: str, version: str) -> Mapping[str, Any]:
        """The records of an artifact; empty if it was removed."""
        return open_artifact(self.store, step, version).manifest() or {}


@contextmanager
def open_runs(store: Store, refs: Sequence[str | None]) -> Iterator[tuple[Subject, ...]]:
    """The runs with these names, one or two. Raises UnknownRef.

    None means the newest run that is done, else the newest.
    """
    with store.as_listed():
        done = (run["run_id"] for run in runs.list_runs(store) if run["state"] == "done")
        resolved = [
            runs.resolve_run(store, next(done, None) if ref is None else ref) for ref in refs
        ]
        names = ("A", "B") if len(resolved) > 1 else ("run",)
        subjects = tuple(
            Subject(store, run, name, connect(store, str(run["run_id"])))
            for run, name in zip(resolved, names, strict=True)
        )
    try:
        yield subjects
    finally:
        for subject in subjects:
            subject.connection.close()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Build = Callable[[Subject], list[Block]]
Part = Callable[[Sequence[Subject]], Section]


def of_each_run(title: str, missing: str, lead: str) -> Callable[[Build], Part]:
    """Makes a section from a function that shows one run; `missing` is shown for an empty one."""

    def decorate(build: Build) -> Part:
        @wraps(build)
        def part(subjects: Sequence[Subject]) -> Section:
            blocks: list[Block] = []
            for subject in subjects:
                run_blocks = build(subject)
                name = f"Run {subject.name}" if len(subjects) > 1 else ""
                if name and run_blocks:
                    blocks.append(Note(name, "head"))
                blocks += run_blocks or [Note(": ".join(filter(None, (name, missing))), "missing")]
            return Section(title, blocks, lead)

        return part

    return decorate
