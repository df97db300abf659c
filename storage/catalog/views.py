"""The SQL surface: DuckDB views over the store, derived from records and never the truth."""

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from tercet.storage import locks
from tercet.storage.answers.journal import POOL, contents, sealed_names
from tercet.storage.answers.usage import answers_sql, usage_sql
from tercet.storage.catalog.snapshot import (
    METADATA,
    Entry,
    Snapshot,
    files_by_schema,
    read_snapshot,
)
from tercet.storage.rows import quoted, read_parquet_sql
from tercet.storage.runs import resolve_run
from tercet.storage.store import Store, clear_errors

CATALOG = "catalog.duckdb"
MEMORY_LIMIT = "2GB"

_ASIDE = re.compile(r"\.catalog-(\d+)-[0-9a-f]+(\.wal)?")
_PARTIAL = "partial"
_POOL_VIEWS = {POOL: answers_sql, "usage": usage_sql}


def connect(
    store: Store,
    run: str | None = None,
    known_schemas: Mapping[str, pa.Schema] | None = None,
    memory_limit: str = MEMORY_LIMIT,
) -> duckdb.DuckDBPyConnection:
    """A connection of its own with the store's views, which reaches no file outside the store.

    Args:
        store: It is only read.
        run: Whose tables the plain names mean (`resolve_run`); by default each table is the newest
            run's that reached it.
        known_schemas: Tables that are there, empty, before any artifact has them.
        memory_limit: In DuckDB's form.

    Raises UnknownRef when there is no such run. Every query must still pass `sql.checked`.
    """
    snapshot = read_snapshot(store)
    chosen = None if run is None else resolve_run(store, run)["run_id"]
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = {quoted(memory_limit)}")
    connection.execute("SET python_enable_replacements = false")
    # DuckDB would write a bar into whatever the caller writes.
    connection.execute("SET enable_progress_bar = false")
    _fill(connection, "memory", snapshot, chosen, known_schemas or {})
    _show_pool(connection, store)
    spill = store.root / "scratch" / f"sql-{os.getpid()}"
    connection.execute(f"SET temp_directory = {quoted(str(spill))}")
    connection.execute(f"SET allowed_directories = [{quoted(str(store.root))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def write_catalog(store: Store, known_schemas: Mapping[str, pa.Schema] | None = None) -> Path:
    """Writes ``catalog.duckdb`` with the same views for other DuckDB clients; returns its path.

    It is built aside and renamed into place: whoever has the old one open keeps it. DuckDB opens a
    file twice to connect, so that a client that connects in that very moment may get an IO error,
    and had better try again. The views name files by absolute paths, so a store that was moved
    needs it written anew. Of the answers of language models it shows those in sealed files, later
    ones too, and not those in journals.
    """
    target = store.root / CATALOG
    # One at a time, or a catalog of what was read earlier could replace a later one.
    with locks.hold(store, "catalog"), clear_errors(store.location):
        snapshot = read_snapshot(store)
        _sweep(store.root)
        aside = store.root / f".catalog-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            with duckdb.connect() as connection:
                # Clients of the last 1.x releases can read this version of the file format.
                connection.execute(
                    f"ATTACH {quoted(str(aside))} AS built (STORAGE_VERSION 'v1.0.0')"
                )
                _fill(connection, "built", snapshot, None, known_schemas or {})
                _show_sealed(connection, store)
                connection.execute("DETACH built")
            aside.replace(target)
        except duckdb.IOException as error:
            raise OSError(str(error)) from error
        finally:
            for left in (aside, aside.with_name(aside.name + ".wal")):
                with suppress(OSError):
                    left.unlink()
    return target


def _fill(
    connection: duckdb.DuckDBPyConnection,
    database: str,
    snapshot: Snapshot,
    run: str | None,
    known_schemas: Mapping[str, pa.Schema],
) -> None:
    """Makes all views, macros and tables of the catalog in one database."""
    store = snapshot.store
    connection.execute(f"CREATE SCHEMA {database}.{_PARTIAL}")
    made = snapshot.unfinished()
    of_runs = [snapshot.of_run(one) for one in snapshot.runs if run in (None, one["run_id"])]
    in_store = {table for entry in snapshot.entries for table in entry.totals}
    for table in sorted(in_store | set(known_schemas)):
        reached = next((found for found in of_runs if _have(found, table)), [])
        for place, entries in ((f"{database}.main", reached), (f"{database}.{_PARTIAL}", made)):
            if _have(entries, table):
                _view(connection, f"{place}.{_name(table)}", _union(store, entries, table))
            elif table in known_schemas:
                _table(connection, f"{place}.{_name(table)}", known_schemas[table].empty_table())
            else:
                _view(connection, f"{place}.{_name(table)}", _no_rows(snapshot, table))
        if table in in_store:
            name = f"{database}.main.{_name(table + '_at')}"
            connection.execute(f"CREATE MACRO {name}(version) AS TABLE {_at(snapshot, table)}")
    for name, rows in snapshot.metadata().items():
        if name not in in_store:
            _table(connection, f"{database}.main.{name}", rows)


def _show_pool(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """The pool as it is now: what journals hold is in memory, and in the schema partial."""
    files, unsealed = contents(store)
    waiting = f"memory.{_PARTIAL}.{POOL}"
    _table(connection, waiting, unsealed)
    asked = f"SELECT * FROM {waiting}"
    if files:
        asked = f"SELECT * FROM {read_parquet_sql(files)} UNION ALL BY NAME {asked}"
    for name, sql in _POOL_VIEWS.items():
        _view(connection, f"memory.main.{name}", sql(asked))


def _show_sealed(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """The pool's sealed files by a pattern, so that those that come later are there too."""
    there = bool(sealed_names(store))
    pattern = read_parquet_sql([str(store.local(f"{POOL}/*.parquet"))])
    for name, sql in _POOL_VIEWS.items():
        if there:
            _view(connection, f"built.main.{name}", sql(f"SELECT * FROM {pattern}"))
        else:
            _table(connection, f"built.main.{name}", METADATA[name].empty_table())


def _have(entries: Sequence[Entry], table: str) -> bool:
    return any(table in entry.totals for entry in entries)


def _union(store: Store, entries: Sequence[Entry], table: str) -> str:
    """The table over these artifacts; files of one schema are one scan, schemas unite by name."""
    selects = []
    for schema, files in files_by_schema(entries, table).items():
        local = [str(store.local(path)) for path in files or [schema]]
        selects.append(f"SELECT * FROM {read_parquet_sql(local)}")
    return " UNION ALL BY NAME ".join(selects)


def _no_rows(snapshot: Snapshot, table: str) -> str:
    """A query that gives the columns of the table's latest form, and no rows."""
    entries = sorted(snapshot.entries, key=lambda entry: entry.created)
    schema = next(
        record["schemas"][table]
        for entry in reversed(entries)
        for record in entry.records
        if table in record["schemas"]
    )
    return f"SELECT * FROM {read_parquet_sql([str(snapshot.store.local(schema))])}"


def _at(snapshot: Snapshot, table: str) -> str:
    """A query whose parameter `version`, or the beginning of one, picks the files that are read."""
    cases = []
    counted = []
    for entry in snapshot.entries:
        if table in entry.totals:
            fits = f"starts_with({quoted(entry.artifact.version)}, version)"
            files = [
                str(snapshot.store.local(path))
                for schema, paths in files_by_schema([entry], table).items()
                for path in paths or [schema]
            ]
            listed = ", ".join(quoted(file) for file in files)
            cases.append(f"WHEN {fits} THEN [{listed}]")
            counted.append(f"{fits}::INT")
    wrong = f"error({quoted(table + ' has no single version that begins with ')} || version)"
    return (
        f"SELECT * FROM read_parquet(CASE WHEN {' + '.join(counted)} <> 1 THEN {wrong} "
        f"{' '.join(cases)} END, union_by_name = true, hive_partitioning = false)"
    )


def _view(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    """A view; where its files cannot be read, one that says so when it is asked."""
    try:
        connection.execute(f"CREATE VIEW {name} AS {query}")
    except duckdb.IOException as error:
        said = f"Files of this table cannot be read: {str(error).splitlines()[0]}"
        connection.execute(f"CREATE VIEW {name} AS SELECT error({quoted(said)}) AS damaged")


def _table(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    connection.register("incoming", rows)
    connection.execute(f"CREATE TABLE {name} AS FROM incoming")
    connection.unregister("incoming")


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def _sweep(root: Path) -> None:
    """Removes what killed processes left of catalogs that were being built."""
    for entry in root.iterdir():
        found = _ASIDE.fullmatch(entry.name)
        if found and not locks.alive(int(found[1])):
            with suppress(OSError):
                entry.unlink()
