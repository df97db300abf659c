"""Reads the facts about a run from the catalog, for a card."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from tercet.flows.cards.rendering import table
from tercet.flows.results import transductive
from tercet.storage import runs
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store

# What a card shows as tables, by their names there. Their heads are the columns.
_TABLES = {
    "warnings": """
        SELECT step, message AS "what was found", remedy AS "what to do" FROM warnings""",
    "funnel": """
        FROM (VALUES
            ('documents', (SELECT count(*) FROM documents)),
            ('sentences', (SELECT count(*) FROM sentences)),
            ('sentences in train', (SELECT count(*) FROM sentences WHERE split = 'train')),
            ('sentences in dev', (SELECT count(*) FROM sentences WHERE split = 'dev')),
            ('sentences in test', (SELECT count(*) FROM sentences WHERE split = 'test')),
            ('document pairs', (SELECT count(*) FROM document_pairs)),
            ('anchors', (SELECT coalesce(sum(anchors), 0)::BIGINT FROM anchor_shares)),
            ('generations', (SELECT count(*) FROM generations)),
            ('candidates', (SELECT count(*) FROM candidates)),
            ('triplets', (SELECT count(*) FROM triplets))
        ) AS funnel (what, rows)""",
    "rejects": """
        SELECT stage, reason, count(*) AS rows FROM rejects
        GROUP BY ALL ORDER BY stage, rows DESC, reason""",
    "acceptance": """
        SELECT role, method, candidates, accepted, used, format('{:.2f}', threshold) AS threshold,
            format('{:.2f}', similarity_median) AS "median similarity"
        FROM acceptance ORDER BY acceptance.role, acceptance.method""",
    "language_models": """
        SELECT model, method, count(*) AS generations FROM generations
        WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    "contamination": """
        SELECT suite, task, level, count(DISTINCT text_id) AS "training texts",
            count(DISTINCT text_id) FILTER (removed) AS removed
        FROM contamination GROUP BY suite, task, level ORDER BY suite, task, level""",
}


@dataclass(frozen=True)
class RunFacts:
    """The facts about a run.

    corpora: of each its name, source, role, its sentences or labelled rows, and its licence.
    tables: Markdown, by the names of `_TABLES`; empty without rows.
    guarded: whether its training rows were searched for texts of evaluation sets; if so, an empty
        `contamination` means that there were none.
    transductive: what figures mean where found texts stayed in training; empty where none did.
    """

    recipe: Mapping[str, Any]
    corpora: Sequence[tuple[str, str, str, int, str]]
    tables: Mapping[str, str]
    steps: Sequence[Mapping[str, Any]]
    guarded: bool
    transductive: str

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
    tables = {}
    for name, query in _TABLES.items():
        found = connection.execute(query)
        heads = [column[0] for column in found.description or ()]
        tables[name] = table(heads, found.fetchall())
    return RunFacts(
        recipe=run["recipe"],
        corpora=list(_corpora(connection, run["recipe"])),
        tables=tables,
        steps=run["steps"],
        guarded=any(step.get("stage") == "guard" for step in run["steps"]),
        transductive=transductive.WHY if transductive.sets_of(connection) else "",
    )


def _corpora(
    connection: duckdb.DuckDBPyConnection, recipe: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, int, str]]:
    counts = dict(
        connection.execute(
            """SELECT corpus, count(*) FROM (
                SELECT corpus FROM sentences UNION ALL SELECT corpus FROM labelled
            ) GROUP BY corpus"""
        ).fetchall()
    )
    for corpus in recipe.get("corpora") or ():
        name, source = str(corpus.get("name")), str(corpus.get("source"))
        if packages := corpus.get("packages"):
            source += f": {', '.join(packages)}"
        # No source says its licence.
        yield name, source, str(corpus.get("role", "domain")), counts.get(name, 0), "unknown"
