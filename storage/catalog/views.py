"""The SQL interface: DuckDB views over the store, derived from its records."""

import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeAlias

import duckdb
import pyarrow as pa
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from tercet.storage import locks, runs
from tercet.storage.answers import (
    POOL,
    answers_sql,
    contents,
    sealed_names,
    sealed_paths,
    usage_sql,
)
from tercet.storage.artifacts import Artifact
from tercet.storage.bucket import Bucket
from tercet.storage.catalog.snapshot import (
    METADATA,
    Entry,
    Snapshot,
    files_by_schema,
    read_snapshot,
)
from tercet.storage.objects import Folder
from tercet.storage.part_writer import schema_path
from tercet.storage.rows import quoted, quoted_name, read_parquet_sql
from tercet.storage.runs import resolve_run
from tercet.storage.store import ANSWERS, Damaged, Store, StoreError, clear_errors

# Bytes of a bucket's file that are read at once; smaller files are copied to the cache as a whole.
_BLOCK = 2**20


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]
    """A bucket's objects as read-only files for DuckDB, without an extension of DuckDB.

    sizes: known sizes in bytes, by path.
    """

    protocol = "s3"
    cachable = False

    def __init__(self, store: Store, bucket: Bucket, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.bucket = bucket
        self._store = store
        self._sizes = sizes
        self._asked = lru_cache(maxsize=None)(self._ask)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself, since the catalog's queries name existing files and no patterns."""
        return [path]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        inside = self.inside(path)
        size = self._sizes.get(inside) or self._asked(inside)
        return {"name": path, "size": size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """A constant, since objects never change."""
        return datetime.fromtimestamp(0, UTC)

    def inside(self, path: str) -> str:
        """The object's path. Raises PermissionError for one that lies elsewhere."""
        inside = path.removeprefix(f"{self.bucket.url}/")
        if inside == path or ".." in inside.split("/"):
            raise PermissionError(f"{path} does not lie in {self.bucket.url}")
        return inside

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The object's bytes from `start` up to `end`."""
        with self._clear_errors(path):
            return self.bucket.read_range(self.inside(path), start, end)

    def _ask(self, path: str) -> int:
        # FileNotFoundError passes: DuckDB may be checking whether the file exists.
        with clear_errors(self._store.location):
            return self.bucket.size(path)

    @contextmanager
    def _clear_errors(self, path: str) -> Iterator[None]:
        """Raises storage errors as StoreError, since DuckDB shows users the whole error."""
        try:
            with clear_errors(self._store.location):
                yield
        except FileNotFoundError:
            raise StoreError("gone", f"{path} is not there") from None

    def _open(self, path: str, mode: str = "rb", **_: Any) -> IO[bytes]:
        if mode != "rb":
            raise PermissionError(f"{path} can only be read")
        size = int(self.info(path)["size"])
        if size <= _BLOCK:
            with self._clear_errors(path):
                return self._store.local(self.inside(path)).open("rb")
        file: IO[bytes] = _File(self, path, mode, block_size=_BLOCK, size=size)
        return file

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path


class _File(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.read_range(self.path, start, min(end, self.size)))


CATALOG = "catalog.duckdb"
MEMORY_LIMIT = "2GB"

# Where DuckDB reads an object.
Place: TypeAlias = Callable[[str], str]

_PARTIAL = "partial"
_POOL_VIEWS = {POOL: answers_sql, "usage": usage_sql}


def connect(
    store: Store,
    run: str | None = None,
    known_schemas: Mapping[str, pa.Schema] | None = None,
    memory_limit: str = MEMORY_LIMIT,
    wanted: Callable[[str], bool] = lambda table: True,
) -> duckdb.DuckDBPyConnection:
    """A new connection with the store's views, which cannot access files outside the store.

    Args:
        store: Only read.
        run: The run that plain table names refer to (`resolve_run`); by default, each table shows
            the newest run that reached it.
        known_schemas: Schemas by table. The table exists, empty, before any artifact has it, and
            always has all of these columns: NULL where files of other versions lack them. A
            schema's metadata names columns that the view computes: name to SQL expression.
        memory_limit: In DuckDB's format.
        wanted: Chooses the tables of steps, `TABLE_at`, and `responses` and `usage` together, to
            create; a table of thousands of files takes a moment.

    Raises UnknownRef when there is no such run. Every query must still pass `sql.checked`.
    """
    with store.as_listed():
        snapshot = read_snapshot(store)
        resolved = None if run is None else resolve_run(store, run)
    chosen = None if resolved is None else str(resolved["run_id"])
    if resolved is not None:
        reached = runs.reached(resolved)
        for path in sorted(store.damaged):
            if "@".join(path.split("/")[1:3]) in reached:
                raise Damaged(f"What run {chosen} reached is damaged ({path} is not JSON)")
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = {quoted(memory_limit)}")
    connection.execute("SET python_enable_replacements = false")
    # No progress bar in the caller's output. In a notebook without ipywidgets DuckDB has none and
    # refuses the setting.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    place = _reader(connection, snapshot)
    _fill(connection, "memory", snapshot, place, chosen, known_schemas or {}, wanted)
    if any(map(wanted, _POOL_VIEWS)):
        _show_pool(connection, store)
    # One folder a connection: two would write into each other's files.
    spill = store.work / "scratch" / f"sql-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    connection.execute(f"SET temp_directory = {quoted(str(spill))}")
    allowed = f"{quoted(str(store.work))}, {quoted(f'{store.location}/')}"
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def write_catalog(store: Store, known_schemas: Mapping[str, pa.Schema] | None = None) -> Path:
    """Writes ``catalog.duckdb`` with the same views for other DuckDB clients; returns its path.
    Not written for a bucket, whose objects such clients cannot read as files.

    The file is built aside and renamed into place: clients that have the old one open keep it.
    DuckDB opens a file twice to connect, so a client that connects during the rename may get an IO
    error and should try again. The views hold absolute paths, so the catalog must be rewritten
    after the store was moved. Its views of language models' answers cover sealed files, including
    later ones, but not journals.
    """
    target = store.work / CATALOG
    if isinstance(store.objects, Bucket):
        return target
    # One writer at a time, or an older catalog could replace a newer one.
    with locks.hold(store.near, "catalog"), clear_errors(store.location):
        snapshot = read_snapshot(store)
        for left in store.work.glob(".catalog-*"):
            # Left by a killed process: no other process writes one now.
            left.unlink(missing_ok=True)
        aside = store.work / f".catalog-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            with duckdb.connect() as connection:
                # The file format that clients of the last 1.x releases can read.
                connection.execute(
                    f"ATTACH {quoted(str(aside))} AS built (STORAGE_VERSION 'v1.0.0')"
                )

                def build() -> None:
                    place = _reader(connection, snapshot)
                    _fill(connection, "built", snapshot, place, None, known_schemas or {})
                    _show_sealed(connection, store)

                _at_once(connection, build)
                connection.execute("DETACH built")
            aside.replace(target)
        except (duckdb.IOException, duckdb.TransactionException) as error:
            raise OSError(str(error)) from error
        finally:
            for left in (aside, aside.with_name(aside.name + ".wal")):
                with suppress(OSError):
                    left.unlink()
    return target


def _reader(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Place:
    """Where DuckDB reads an object: a bucket's tables by URL, other objects as local files."""
    store = snapshot.store
    if isinstance(store.objects, Folder):
        root = str(store.objects.root)
        return lambda path: f"{root}/{path}"
    if not isinstance(store.objects, Bucket):
        return lambda path: str(store.local(path))
    sizes = {
        file["path"]: int(file["bytes"])
        for entry in snapshot.entries
        for record in entry.records
        for files in record["tables"].values()
        for file in files
    }
    connection.register_filesystem(BucketFiles(store, store.objects, sizes))
    return lambda path: f"{store.location}/{path}" if path in sizes else str(store.local(path))


def _at_once(connection: duckdb.DuckDBPyConnection, build: Callable[[], None]) -> None:
    """Builds in one transaction, which waits for the disk once and not for every view."""
    connection.execute("BEGIN")
    try:
        build()
        connection.execute("COMMIT")
    except duckdb.TransactionException:
        # A view with unreadable files has ended the transaction: build without one. A full disk
        # fails again.
        with suppress(duckdb.TransactionException):
            connection.execute("ROLLBACK")
        build()


def _fill(
    connection: duckdb.DuckDBPyConnection,
    database: str,
    snapshot: Snapshot,
    place: Place,
    run: str | None,
    known_schemas: Mapping[str, pa.Schema],
    wanted: Callable[[str], bool] = lambda table: True,
) -> None:
    """Creates the views, macros and tables of the catalog in one database."""
    connection.execute(f"CREATE SCHEMA {database}.{_PARTIAL}")
    unfinished = snapshot.unfinished()
    of_runs = [snapshot.of_run(one) for one in snapshot.runs if run in (None, one["run_id"])]
    newest = {one.artifact.step: one.artifact for entries in reversed(of_runs) for one in entries}
    in_store = {table for entry in snapshot.entries for table in entry.totals}
    for table in sorted(filter(wanted, in_store | set(known_schemas))):
        # The catalog's clients may have a DuckDB that does not know `column_statistics`.
        known = known_schemas.get(table) if database == "memory" else None
        reached = next((entries for entries in of_runs if _have(entries, table)), [])
        schemas = {schema for entry in snapshot.entries for schema in entry.files.get(table, ())}
        whole = _whole(connection, known_schemas.get(table), schemas)
        for where, entries in (("main", reached), (_PARTIAL, unfinished)):
            name = f"{database}.{where}.{quoted_name(table)}"
            if _have(entries, table):
                _view(connection, name, whole(_union(place, entries, table, known)))
            elif table in known_schemas:
                _table(connection, name, pa.Table.from_batches([], known_schemas[table]), whole)
            else:
                _view(connection, name, _no_rows(snapshot, place, table))
        if table in in_store and wanted(f"{table}_at"):
            name = f"{database}.main.{quoted_name(table + '_at')}"
            query = whole(_at(snapshot, place, table, newest))
            connection.execute(f"CREATE MACRO {name}(version) AS TABLE {query}")
    for name, rows in snapshot.metadata(run).items():
        if name not in in_store:
            _table(connection, f"{database}.main.{name}", rows)


def _whole(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema | None, files: Collection[str]
) -> Callable[[str], str]:
    """Wraps a query over a table's files so that it has all columns of the schema.

    The schema's metadata defines computed columns, name to SQL expression. Files of other versions
    may lack columns that an expression reads, or hold the computed column, which then counts.

    files: the schemas' files of the table's artifacts.
    """
    # A shortcut for most tables, since naming a schema's file takes some 7 ms.
    if schema is None or not (schema.metadata or (files and {*files} != {schema_path(schema)})):
        return lambda query: query
    computed = {name.decode(): sql.decode() for name, sql in (schema.metadata or {}).items()}
    connection.register("described", pa.Table.from_batches([], schema))
    described = connection.execute("DESCRIBE described").fetchall()
    connection.unregister("described")
    nulls = ", ".join(f"NULL::{kind} AS {quoted_name(name)}" for name, kind, *_ in described)
    added = "".join(f", {sql} AS {quoted_name(name)}" for name, sql in computed.items())
    empty = f"SELECT *{added} FROM (SELECT {nulls}) WHERE false"
    replacements = ", ".join(
        f"coalesce({quoted_name(name)}, {sql}) AS {quoted_name(name)}"
        for name, sql in computed.items()
    )
    replaced = f" REPLACE ({replacements})" if replacements else ""
    return lambda query: f"SELECT *{replaced} FROM ({query} UNION ALL BY NAME {empty})"


def _show_pool(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """The current pool; rows of journals are copied into the schema `partial`, in memory."""
    files, unsealed = contents(store)
    waiting = f"memory.{_PARTIAL}.{POOL}"
    _table(connection, waiting, unsealed)
    requests = f"SELECT * FROM {waiting}"
    if files:
        requests = f"SELECT * FROM {read_parquet_sql(files)} UNION ALL BY NAME {requests}"
    for name, sql in _POOL_VIEWS.items():
        _view(connection, f"memory.main.{name}", sql(requests), METADATA[name].names)


def _show_sealed(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """The pool's sealed files; in a local store by a pattern, which also matches later files."""
    sealed = sealed_names(store)
    if sealed and isinstance(store.objects, Folder):
        sealed = [ANSWERS]
    files = sealed_paths(store, sealed)
    for name, sql in _POOL_VIEWS.items():
        if files:
            requests = f"SELECT * FROM {read_parquet_sql(files)}"
            _view(connection, f"built.main.{name}", sql(requests), METADATA[name].names)
        else:
            _table(connection, f"built.main.{name}", pa.Table.from_batches([], METADATA[name]))


def _have(entries: Sequence[Entry], table: str) -> bool:
    return any(table in entry.totals for entry in entries)


def _union(place: Place, entries: Sequence[Entry], table: str, known: pa.Schema | None) -> str:
    """The table over these artifacts: one scan per schema, united by column name.

    known: the schema, if DuckDB may estimate by it: each id of the first column has one row.
        It reads no statistics of many files, would take the rows with one id for a fifth of the
        table, and would join whole tables.
    """
    statistics: dict[str, dict[str, str]] = {}
    if known is not None and known.names[0].endswith("_id"):
        rows = sum(entry.totals[table]["rows"] for entry in entries if table in entry.totals)
        distinct = f"{{{known.names[0]}: {{distinct_count: {rows}}}}}"
        statistics[schema_path(known)] = {"column_statistics": distinct}
    selects = []
    for schema, files in files_by_schema(entries, table).items():
        read = [place(path) for path in files or [schema]]
        selects.append(f"SELECT * FROM {read_parquet_sql(read, **statistics.get(schema, {}))}")
    return " UNION ALL BY NAME ".join(selects)


def _no_rows(snapshot: Snapshot, place: Place, table: str) -> str:
    """A query with the columns of the table's latest schema, and no rows."""
    entries = sorted(snapshot.entries, key=lambda entry: entry.created)
    schema = next(
        record["schemas"][table]
        for entry in reversed(entries)
        for record in entry.records
        if table in record["schemas"]
    )
    return f"SELECT * FROM {read_parquet_sql([place(schema)])}"


def _at(snapshot: Snapshot, place: Place, table: str, newest: Mapping[str, Artifact]) -> str:
    """A query whose parameter `version` (a version, its start, or a step) selects the files.

    newest: the artifact that a step's name stands for.
    """
    cases = []
    counted = []
    for entry in snapshot.entries:
        if table in entry.totals:
            fits = f"starts_with({quoted(entry.artifact.version)}, version)"
            if newest.get(entry.artifact.step) == entry.artifact:
                fits = f"({fits} OR version = {quoted(entry.artifact.step)})"
            files = [
                place(path)
                for schema, paths in files_by_schema([entry], table).items()
                for path in paths or [schema]
            ]
            listed = ", ".join(quoted(file) for file in files)
            cases.append(f"WHEN {fits} THEN [{listed}]")
            counted.append(f"{fits}::INT")
    none = f"{table} has no step of that name, nor a single version that begins with "
    wrong = f"error({quoted(none)} || version)"
    # A list, since a sum of a thousand terms exceeds the depth of DuckDB's expressions.
    return (
        f"SELECT * FROM read_parquet(CASE WHEN list_sum([{', '.join(counted)}]) <> 1 THEN {wrong} "
        f"{' '.join(cases)} END, union_by_name = true, hive_partitioning = false)"
    )


def first_line(error: Exception) -> str:
    """The first line of DuckDB's message, or the message of a StoreError within it."""
    message = str(error).strip()
    match = re.search(r"^(?:tercet\.\S*)?StoreError: (.*)", message, re.MULTILINE)
    return match[1] if match else message.partition("\n")[0].rstrip()


def _view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    query: str,
    columns: Sequence[str] = ("damaged",),
) -> None:
    """Creates a view; if its files cannot be read, one with `columns` that raises when queried."""
    try:
        connection.execute(f"CREATE VIEW {name} AS {query}")
    except duckdb.Error as error:
        # DuckDB raises errors from Python, such as a bucket's errors, as plain `duckdb.Error`.
        if type(error) not in (duckdb.IOException, duckdb.InvalidInputException, duckdb.Error):
            raise
        message = f"Files of this table cannot be read: {first_line(error)}"
        # The error stands in WHERE, since count(*) computes no column.
        nothing = ", ".join(f"NULL AS {quoted_name(column)}" for column in columns)
        query = f"SELECT {nothing} WHERE error({quoted(message)})"
        connection.execute(f"CREATE VIEW {name} AS {query}")


def _table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    rows: pa.Table,
    whole: Callable[[str], str] = lambda query: query,
) -> None:
    connection.register("incoming", rows)
    connection.execute(f"CREATE TABLE {name} AS {whole('SELECT * FROM incoming')}")
    connection.unregister("incoming")
