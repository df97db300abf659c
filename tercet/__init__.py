"""Tercet from Python: run a recipe, and read the tables of runs. Guide: docs/python.md.

Names of this module are stable; the packages below it are not. Importing it loads none of these
packages.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from tercet.storage.store import StoreError
    from tercet.tasks.stage import BadInput

__all__ = ["BadInput", "Run", "Store", "StoreError", "open", "run"]

_ERRORS = {"BadInput": "tercet.tasks.stage", "StoreError": "tercet.storage.store"}
# Rows of an answer that a notebook shows.
_SHOWN = 20


def run(
    recipe: str,
    store: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    corpus: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> Run:
    """Runs a recipe in this process, without Prefect, and reuses what is finished.

    Tells about each step on standard error. Killed or interrupted, it goes on where it stopped when
    it is called again.

    Args:
        recipe: A YAML file, or a shipped recipe's name.
        store: A directory or bucket; by default $TERCET_STORE, else ./tercet-store.
        overrides: Recipe keys in dots, such as `train.phases.0.epochs`, and their new values.
        corpus, until, limit, seed: As the options of `tercet run`.

    Raises: BadInput for what is to be changed in the recipe or its corpora, StoreError for a store
        that cannot be used; each is one sentence that ends in what to do.
    """
    import json

    from tercet.flows.commands.run import run_plainly
    from tercet.flows.running.arguments import RunArguments, usual_store
    from tercet.flows.running.run_plan import prepare

    store = store or usual_store()
    changed = tuple(f"{key}={json.dumps(value)}" for key, value in (overrides or {}).items())
    plan = prepare(RunArguments(recipe, store, changed, corpus, until, limit, seed))
    run_id = run_plainly(plan)
    return open(store).run(run_id)


def open(store: str | None = None) -> Store:  # noqa: A001 (read as tercet.open)
    """The store in that directory or bucket, by default $TERCET_STORE, else ./tercet-store.

    Raises StoreError if there is none.
    """
    from tercet.flows.running.arguments import usual_store
    from tercet.storage.store import open_store

    return Store(open_store(store or usual_store(), create=False).location)


@dataclass(frozen=True)
class Store:
    """The runs in a directory and their tables. A table is the newest run's that reached it."""

    location: str

    def sql(self, query: str) -> pa.Table:
        """The rows of one SELECT. Raises BadInput for a query that fails or does more."""
        return _rows(self.location, None, query)

    def table(self, name: str) -> pa.Table:
        """All rows of a table (docs/tables.md). Raises BadInput for an unknown one."""
        return _rows(self.location, None, f"FROM {_quoted(name)}")

    def search(self, query: str, count: int = 5, by: str | None = None) -> pa.Table:
        """As `Run.search`, in the newest run that has vectors of its passages."""
        return _found(self.location, None, query, count, by)

    def run(self, ref: str | None = None) -> Run:
        """A run by its id, the beginning of one, a tag or its recipe's name; by default the newest.

        Raises: StoreError if there is no such run, or several.
        """
        from tercet.storage.runs import resolve_run
        from tercet.storage.store import open_store

        found = resolve_run(open_store(self.location, create=False), ref)
        return Run(self.location, found["run_id"], found["recipe_name"], found["state"])


@dataclass(frozen=True)
class Run:
    """A run. Its tables are those that it reached; state: done, failed, interrupted, …"""

    location: str
    id: str
    recipe: str
    state: str

    def sql(self, query: str) -> pa.Table:
        """The rows of one SELECT. Raises BadInput for a query that fails or does more."""
        return _rows(self.location, self.id, query)

    def table(self, name: str) -> pa.Table:
        """All rows of a table (docs/tables.md). Raises BadInput for an unknown one."""
        return _rows(self.location, self.id, f"FROM {_quoted(name)}")

    def _repr_html_(self) -> str:
        """A notebook's view of the run."""
        from html import escape

        heading = f"Run {self.id} of {self.recipe}: {self.state}"
        return f"<p>{escape(heading)}</p>{_html(self.figures())}"

    def steps(self) -> pa.Table:
        """The run's steps in order: step, version, state (made, resumed or reused), seconds."""
        return self.sql(
            f"SELECT step, version, state, seconds FROM run_steps WHERE run_id = '{self.id}'"
        )

    def warnings(self) -> pa.Table:
        """Problems of the run that are no errors, in the order of its steps, and what to do."""
        return self.table("warnings")

    def figures(self) -> pa.Table:
        """Each metric of the untouched and of the trained encoder, a row a seed.

        suite, task, subset, metric, seed; before, after, gain (percent, but for geometry), with
        gain_low and gain_high, the gain's 95 % interval, and n, the queries or pairs behind them.
        """
        from contextlib import closing

        from tercet.flows.results.figures import as_table, read_figures
        from tercet.flows.results.queries import connect
        from tercet.storage.store import open_store

        with closing(connect(open_store(self.location, create=False), self.id)) as connection:
            return as_table(read_figures(connection))

    def measures(self) -> dict[str, pa.Table]:
        """The tables of figures in the run's summary and report, by name, if they have rows."""
        from contextlib import closing

        import pyarrow as pa

        from tercet.flows.results.measures import read_measures
        from tercet.flows.results.queries import connect
        from tercet.flows.results.subject import Subject
        from tercet.storage.runs import resolve_run
        from tercet.storage.store import open_store

        store = open_store(self.location, create=False)
        with closing(connect(store, self.id)) as connection:
            subject = Subject(store, resolve_run(store, self.id), "run", connection)
            return {
                name: pa.Table.from_pylist(table.records())
                for name, (_, table) in read_measures(subject).items()
            }

    def search(self, query: str, count: int = 5, by: str | None = None) -> pa.Table:
        """The run's passages that a query finds, best first, as `tercet search` does.

        after, before, bm25: ranks from 1 by the trained encoder, the untouched one and BM25, null
        behind 1,000 and where the run has no such vectors; their scores (after_score, …); text,
        context, path, corpus, passage_id.

        Args:
            count: The best passages of each ranking, so that there are up to three times as many.
            by: One ranking alone: after, before or bm25.

        Raises: BadInput for an empty query, and for a run without passages (`ingest.passages`) or
            without the vectors that `by` asks for.
        """
        return _found(self.location, self.id, query, count, by)

    def model(self, ref: str | None = None) -> Path:
        """The directory of a model that the run made, by its step: SentenceTransformer loads it.

        Args:
            ref: A step; None: the last one of `choose`, `whiten` and `train` that the run has.

        Raises: BadInput if the run has not reached that step, or if it makes no model.
        """
        from tercet.flows.results.queries import final_model, find_artifact
        from tercet.storage.store import open_store
        from tercet.tasks.stage import BadInput

        store = open_store(self.location, create=False)
        artifact = find_artifact(store, ref or final_model(store, self.id), self.id)
        folder = artifact.model_dir()
        if folder is None:
            raise BadInput(
                "unfit_model",
                f"{artifact.step} makes no model: name a step such as train or whiten.",
            )
        return folder


def _rows(location: str, run_id: str | None, query: str) -> pa.Table:
    from tercet.flows.results.queries import rows
    from tercet.storage.store import open_store

    return rows(open_store(location, create=False), run_id, query)


def _found(location: str, run_id: str | None, query: str, count: int, by: str | None) -> pa.Table:
    from tercet.flows.results.search import open_passages, search
    from tercet.storage.store import open_store

    return search(open_passages(open_store(location, create=False), run_id), query, count, by).rows


def _html(table: pa.Table) -> str:
    """An answer as a notebook shows it."""
    rows = table.slice(0, _SHOWN).to_pandas(integer_object_nulls=True)._repr_html_()
    left = table.num_rows - _SHOWN
    return rows if left <= 0 else f"{rows}<p>and {left:,} rows more</p>"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def __getattr__(name: str) -> Any:
    if name not in _ERRORS:
        raise AttributeError(f"module 'tercet' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_ERRORS[name]), name)


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    # Arrow does not format tables for notebooks.
    _shell.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", _html)
