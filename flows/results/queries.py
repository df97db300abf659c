"""Queries over a store's runs: artifacts by name, tables, and the answer to one SELECT."""

import re
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa

from tercet.flows.formatting import count_of
from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.catalog import views
from tercet.storage.catalog.read_only import SqlError, checked
from tercet.storage.rows import Rows, joined
from tercet.storage.store import Store
from tercet.tasks.findings.warning import sentence
from tercet.tasks.stage import BadInput
from tercet.tasks.stages import known_schemas

# DuckDB's words for a damaged Parquet file.
_UNREADABLE = re.compile(
    r"parquet file|decompression failure|out of buffer|corrupt|cannot be read", re.IGNORECASE
)
# Queries that may list tables without naming them.
_LISTS = re.compile("information_schema|duckdb_|pg_|sqlite_|pragma|show|describe|summarize")


def connect(
    store: Store, run_ref: str | None, query: str | None = None
) -> duckdb.DuckDBPyConnection:
    """The tables of all stages; a table that no run has reached is empty.

    Columns that older rows lack are NULL. query: opens only the tables that this query names.
    """
    text = "" if query is None else query.lower()
    if query is None or _LISTS.search(text):
        return views.connect(store, run_ref, known_schemas=known_schemas())
    named = lambda table: table.lower() in text  # noqa: E731
    return views.connect(store, run_ref, known_schemas=known_schemas(), wanted=named)


def fetch_dicts(
    connection: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The rows of a query, by column."""
    result = connection.execute(query, dict(values or {}))
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def rows(store: Store, run_ref: str | None, query: str) -> pa.Table:
    """The rows of one SELECT. Raises BadInput for a query that fails or does more."""
    try:
        with closing(connect(store, run_ref)) as connection:
            return connection.sql(checked(connection, query)).to_arrow_table()
    except SqlError as error:
        raise BadInput(error.kind, str(error)) from None
    except (duckdb.Error, pa.ArrowException) as error:
        raise BadInput("bad_query", sql_fault(error)) from None


def sql_fault(error: Exception) -> str:
    """The first line of DuckDB's message with its suggested name, if any; for a file that cannot
    be read also what to do.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    hints = [line for line in lines[1:2] if line.startswith("Did you mean")]
    if _UNREADABLE.search(str(error)):
        hints.append("(`tercet verify` names what is damaged, `tercet verify --mend` discards it)")
    return " ".join([views.first_line(error), *hints]) or type(error).__name__


Row = dict[str, Any]


def read_warnings(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """The warnings of the connection's run, in the order of its steps."""
    return fetch_dicts(connection, "FROM warnings")


def list_warnings(warnings: list[Row]) -> list[str]:
    """Lines for a terminal: how many there are, and a sentence for each; empty without one."""
    heading = f'{count_of(len(warnings), "warning")} (all of them: tercet sql "FROM warnings"):'
    return [heading, *(f"  {sentence(row)}" for row in warnings)] if warnings else []


def find_artifact(store: Store, ref: str, run_ref: str | None) -> Artifact:
    """The artifact that `ref` names; with `run_ref`, a step or table of that run.

    Raises: StoreError for an unknown name, BadInput if the run has not reached it or if the
        artifact was removed.
    """
    of_run = "@" not in ref and not ref.startswith(runs.TAG_PREFIX)
    if run_ref is None or not of_run or runs.get_tag(store, ref) is not None:
        return runs.resolve_ref(store, ref)
    run = runs.resolve_run(store, run_ref)
    fitting = {entry["step"]: entry for entry in run["steps"] if ref in _names(entry)}
    if fitting:
        entry = fitting[runs.meant(ref, list(fitting))]
        artifact = open_artifact(store, entry["step"], entry["version"])
        if artifact.manifest() is None and not artifact.records():
            raise BadInput(
                "gone",
                f"{artifact.name}, which run {run['run_id']} reached, was "
                "removed: run its recipe again.",
            )
        return artifact
    reached = sorted({name for entry in run["steps"] for name in _names(entry)})
    raise BadInput(
        "not_reached",
        f"Run {run['run_id']} has not reached anything called {ref!r}; it has: "
        f"{', '.join(reached) or 'nothing yet'}.",
    )


def final_stage(stages: Collection[str]) -> str | None:
    """The stage among these whose encoder a run ends with; None without one."""
    return next((stage for stage in ("choose", "whiten", "train") if stage in stages), None)


def final_model(store: Store, run_ref: str | None) -> str:
    """The step whose encoder the run ends with. Raises StoreError for an unknown run."""
    run = runs.resolve_run(store, run_ref)
    return final_stage({entry["stage"] for entry in run["steps"]}) or "train"


def rows_of_stage(store: Store, run: Mapping[str, Any], stage: str) -> Rows:
    """The rows of this stage's steps in this run; without tables if it has reached none."""
    steps = (entry for entry in run["steps"] if entry.get("stage", entry["step"]) == stage)
    return joined([open_artifact(store, one["step"], one["version"]).rows() for one in steps])


def named_run(run: Mapping[str, Any]) -> str:
    """The beginning of a sentence about a run."""
    return f"Run {run['run_id']} of {run['recipe_name']}"


def check_finished(artifact: Artifact) -> None:
    """Raises BadInput for an artifact that is not finished."""
    if artifact.manifest() is None:
        raise BadInput(
            "not_reached", f"{artifact.name} is not finished: run its recipe again to resume it."
        )


def _names(entry: Mapping[str, Any]) -> set[str]:
    return {entry["step"], entry.get("stage", entry["step"]), *entry.get("tables", {})}
