"""Reads the facts about a run from the catalog, for a card."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tercet.flows.results import transductive
from tercet.storage import runs
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store

Row = dict[str, Any]

_FUNNEL = (
    ("documents", "SELECT count(*) AS rows FROM documents"),
    ("sentences", "SELECT count(*) AS rows FROM sentences"),
    ("sentences in train", "SELECT count(*) AS rows FROM sentences WHERE split = 'train'"),
    ("sentences in dev", "SELECT count(*) AS rows FROM sentences WHERE split = 'dev'"),
    ("sentences in test", "SELECT count(*) AS rows FROM sentences WHERE split = 'test'"),
    ("document pairs", "SELECT count(*) AS rows FROM document_pairs"),
    ("anchors", "SELECT coalesce(sum(anchors), 0) AS rows FROM anchor_shares"),
    ("generations", "SELECT count(*) AS rows FROM generations"),
    ("candidates", "SELECT count(*) AS rows FROM candidates"),
    ("triplets", "SELECT count(*) AS rows FROM triplets"),
)


# Raised for a table that no stage has made yet, or a column that an older artifact lacks.
_NOT_THERE = (duckdb.CatalogException, duckdb.BinderException)


@dataclass(frozen=True)
class Corpus:
    """A corpus of the recipe; its licence is unknown to Tercet.

    rows: its sentences, or the rows of a labelled corpus.
    """

    name: str
    source: str
    role: str
    packages: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class RunFacts:
    """The facts about a run.

    guarded: whether its training rows were searched for texts of evaluation sets; if so, an empty
        `contamination` means that there were none.
    """

    recipe: Mapping[str, Any]
    corpora: tuple[Corpus, ...]
    funnel: tuple[tuple[str, int], ...]
    rejects: tuple[Row, ...]
    acceptance: tuple[Row, ...]
    guarded: bool
    contamination: tuple[Row, ...]
    steps: tuple[Row, ...]
    language_models: tuple[Row, ...] = field(default=())
    warnings: tuple[Row, ...] = field(default=())

    @property
    def transductive(self) -> str:
        """What figures mean where found texts stayed in training; empty where none did."""
        stayed = any(row["removed"] < row["texts"] for row in self.contamination)
        return transductive.WHY if stayed else ""

    @property
    def name(self) -> str:
        """The recipe's name."""
        return str(self.recipe.get("name", "unnamed"))


def find_run(store: Store, artifact: Artifact, run_ref: str | None) -> runs.Run | None:
    """The run that a card describes: the named one, or else the newest with the artifact."""
    asked = [runs.resolve_run(store, run_ref)] if run_ref is not None else runs.list_runs(store)
    for run in asked:
        for step in run["steps"]:
            if (step["step"], step.get("version")) == (artifact.step, artifact.version):
                return run
    return None


def run_facts(connection: duckdb.DuckDBPyConnection, run: runs.Run) -> RunFacts:
    """Reads the tables of the run that the connection shows."""
    counted = [
        row
        for table in ("sentences", "labelled")
        for row in rows_of(connection, f"SELECT corpus, count(*) AS rows FROM {table} GROUP BY ALL")
    ]
    return RunFacts(
        recipe=run["recipe"],
        corpora=tuple(_corpora(run["recipe"], {row["corpus"]: row["rows"] for row in counted})),
        funnel=tuple(_funnel(connection)),
        rejects=rows_of(
            connection,
            "SELECT stage, reason, count(*) AS rows FROM rejects GROUP BY ALL ORDER BY stage, "
            "rows DESC, reason",
        ),
        acceptance=rows_of(connection, "SELECT * FROM acceptance ORDER BY role, method"),
        guarded=any(step.get("stage") == "guard" for step in run["steps"]),
        contamination=_contamination(connection),
        steps=tuple(_steps(run["steps"])),
        language_models=rows_of(
            connection,
            "SELECT model, method, count(*) AS generations FROM generations "
            "WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL",
        ),
        warnings=rows_of(connection, "FROM warnings"),
    )


def rows_of(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] = ()
) -> tuple[Row, ...]:
    """The rows as dictionaries; empty if the store lacks the table or a column."""
    try:
        answer = connection.execute(sql, list(parameters))
    except _NOT_THERE:
        return ()
    names = [column[0] for column in answer.description or ()]
    return tuple(dict(zip(names, values, strict=True)) for values in answer.fetchall())


def _contamination(connection: duckdb.DuckDBPyConnection) -> tuple[Row, ...]:
    return rows_of(
        connection,
        "SELECT suite, task, level, count(DISTINCT text_id) AS texts, "
        "count(DISTINCT text_id) FILTER (removed) AS removed "
        "FROM contamination GROUP BY suite, task, level ORDER BY suite, task, level",
    )


def _steps(entries: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Each step once, in the run's order."""
    found = {str(entry["step"]): entry for entry in entries}
    return [
        {"step": name, "version": entry.get("version"), "seconds": entry.get("seconds")}
        for name, entry in found.items()
    ]


def _corpora(recipe: Mapping[str, Any], counted: Mapping[str, int]) -> list[Corpus]:
    return [
        Corpus(
            str(corpus.get("name")),
            str(corpus.get("source")),
            str(corpus.get("role", "domain")),
            tuple(corpus.get("packages") or ()),
            int(counted.get(str(corpus.get("name")), 0)),
        )
        for corpus in recipe.get("corpora") or ()
    ]


def _funnel(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, int]]:
    for name, sql in _FUNNEL:
        for row in rows_of(connection, sql):
            yield name, int(row["rows"])
