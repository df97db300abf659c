"""Reads facts about a run from the catalog, and fills a card's template with them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import yaml

from tercet.flows.formatting import format_number
from tercet.flows.recipe.secrets import public, public_values
from tercet.flows.results import metric_names
from tercet.flows.results.measure import Measure, Table, markdown_cell, markdown_table
from tercet.flows.results.measures import read_measures
from tercet.flows.results.queries import fetch_dicts
from tercet.flows.results.subject import Subject
from tercet.storage import runs
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store

if TYPE_CHECKING:
    import jinja2


def render(template: str, metadata: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """A card: front matter between two lines of dashes, then the filled template."""
    items = public_values(metadata).items()
    front = as_yaml({name: value for name, value in items if value not in (None, [], {}, "")})
    body = _environment().get_template(f"{template}.md.jinja").render(**values)
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    return f"---\n{front}---\n\n{public(body)}\n"


def as_yaml(value: Any) -> str:
    """A JSON value as block YAML, in its order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {"cell": markdown_cell, "number": format_number}
    environment.globals |= {"table": markdown_table}
    return environment


# Queries behind a card's tables, by the tables' names in the template. Heads are the column names.
_TABLES = {
    "warnings": """
        SELECT step, message AS "what was found", remedy AS "what to do" FROM warnings""",
    "rejects": """
        SELECT stage, reason, count(*) AS rows FROM rejects
        GROUP BY ALL ORDER BY stage, rows DESC, reason""",
    "language_models": """
        SELECT model, method, count(*) AS generations FROM generations
        WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
}
# Measures that the templates place themselves.
_PLACED = ("evaluations", "seeds", "funnel", "acceptance", "contamination")


@dataclass(frozen=True)
class RunFacts:
    """The facts about a run.

    corpora: name, source, role, number of sentences or labelled rows, and licence of each.
    tables: Markdown, by the names of `_TABLES` and of the measures; empty without rows.
    measures: the measures that the templates do not place, with their tables.
    guarded: whether training rows were searched for texts of evaluation sets; if so, an empty
        `contamination` means that none were found.
    transductive: a note on figures whose texts stayed in training; empty if none did.
    """

    recipe: Mapping[str, Any]
    corpora: Sequence[tuple[str, str, str, int, str]]
    tables: Mapping[str, str]
    measures: Sequence[tuple[Measure, Table]]
    steps: Sequence[Mapping[str, Any]]
    guarded: bool
    transductive: str

    @property
    def name(self) -> str:
        """The recipe's name."""
        return str(self.recipe.get("name", "unnamed"))


def find_run(store: Store, artifact: Artifact, run_ref: str | None) -> runs.Run | None:
    """The run that a card describes: the named one, or else the newest with the artifact."""
    candidates = (
        [runs.resolve_run(store, run_ref)] if run_ref is not None else runs.list_runs(store)
    )
    for run in candidates:
        for step in run["steps"]:
            if (step["step"], step.get("version")) == (artifact.step, artifact.version):
                return run
    return None


def run_facts(subject: Subject) -> RunFacts:
    """Reads the tables of the run, and its figures of the encoder that the subject names."""
    run, connection = subject.run, subject.connection
    tables = {}
    for name, query in _TABLES.items():
        rows = fetch_dicts(connection, query)
        tables[name] = markdown_table(rows[0] if rows else (), (row.values() for row in rows))
    measured = read_measures(subject)
    tables |= dict.fromkeys(_PLACED, "")
    tables |= {name: measured.pop(name)[1].markdown() for name in _PLACED if name in measured}
    return RunFacts(
        recipe=run["recipe"],
        corpora=list(_corpora(connection, run["recipe"])),
        tables=tables,
        measures=list(measured.values()),
        steps=run["steps"],
        guarded=any(step.get("stage") == "guard" for step in run["steps"]),
        transductive=metric_names.WHY_TRANSDUCTIVE
        if metric_names.transductive_sets(connection)
        else "",
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
        # Sources do not state their licence.
        yield name, source, str(corpus.get("role", "domain")), counts.get(name, 0), "unknown"
