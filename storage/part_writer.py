"""Writes a part's tables to Parquet files in a working folder; `Artifact.commit` moves them."""

import hashlib
import io
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.fingerprint import FILE_DIGEST_LENGTH, file_digest
from tercet.storage.store import Store, clear_errors

# Row groups have a fixed size, so that equal rows give equal bytes however they were emitted.
ROW_GROUP = 32_768


@dataclass(frozen=True)
class StagedFile:
    """A finished, uncommitted data file: rows, bytes and SHA-256 of the content (32 hex)."""

    path: Path
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class StagedPart:
    """The contents of a finished part.

    files: the data files of each table, in order; an empty table has none.
    schemas: all tables of the stage, including empty ones.
    directory: holds the model files; None if there are only tables.
    """

    files: Mapping[str, tuple[StagedFile, ...]]
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    directory: Path | None = None


class PartWriter:
    """Takes rows table by table and writes them to files of about `part_rows` rows.

    A file is closed after the emit that filled it; an emit is split only if it has more than four
    times `part_rows` rows. An exception that leaves the `with` block before `close` removes the
    files.

    Raises FullDisk and StoreError like the store.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema], part_rows: int) -> None:
        if part_rows < 1:
            raise ValueError(f"part_rows is {part_rows}, it must be at least 1.")
        self._folder = folder
        self._schemas = {name: schema.remove_metadata() for name, schema in schemas.items()}
        self._part_rows = part_rows
        self._open: dict[str, _File] = {}
        self._done: dict[str, list[StagedFile]] = {name: [] for name in schemas}
        self._closed = False
        with clear_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._closed:
            self.discard()

    def emit(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Appends rows, cast to the table's schema.

        Raises ValueError for an unknown table, a missing or surplus column, or a value that does
        not fit its type.
        """
        if table not in self._schemas:
            tables = ", ".join(sorted(self._schemas))
            raise ValueError(f"There is no table {table!r}, only: {tables}.")
        cast = _cast(table, rows, self._schemas[table])
        limit = self._part_rows
        step = limit if cast.num_rows > 4 * limit else max(cast.num_rows, 1)
        for start in range(0, cast.num_rows, step):
            self._append(table, cast.slice(start, step))

    def close(self, directory: Path | None = None) -> StagedPart:
        """Finishes the files. directory: holds the part's model files."""
        try:
            for table in list(self._open):
                self._finish(table)
        except BaseException:
            self.discard()
            raise
        self._closed = True
        files = {name: tuple(done) for name, done in self._done.items() if done}
        return StagedPart(files, self._schemas, directory)

    def discard(self) -> None:
        """Removes everything written so far."""
        self._closed = True
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        for done in self._done.values():
            for staged in done:
                with suppress(OSError):
                    staged.path.unlink()
            done.clear()

    def _append(self, table: str, rows: pa.Table) -> None:
        with clear_errors(self._folder):
            file = self._open.get(table)
            if file is None:
                name = f"{table}-{uuid.uuid4().hex[:8]}.writing"
                file = self._open[table] = _File(self._folder / name, self._schemas[table])
            file.append(rows)
        if file.rows >= self._part_rows:
            self._finish(table)

    def _finish(self, table: str) -> None:
        with clear_errors(self._folder):
            self._done[table].append(self._open[table].finish())
            del self._open[table]


class _File:
    """One data file being written; rows are buffered until a row group is full."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._sink = path.open("wb")
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", write_page_checksum=True
        )

    def append(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        self._waiting.append(rows)
        if sum(table.num_rows for table in self._waiting) >= ROW_GROUP:
            self._write(whole_groups=True)

    def _write(self, whole_groups: bool) -> None:
        # One chunk per column, since page boundaries depend on chunks.
        rows = pa.concat_tables(self._waiting).combine_chunks()
        start = 0
        while rows.num_rows - start >= ROW_GROUP or (not whole_groups and start < rows.num_rows):
            self._writer.write_table(rows.slice(start, ROW_GROUP), row_group_size=ROW_GROUP)
            start += ROW_GROUP
        self._waiting = [rows.slice(start)] if start < rows.num_rows else []

    def finish(self) -> StagedFile:
        if self._waiting:
            self._write(whole_groups=False)
        self._writer.close()
        self._sink.flush()
        os.fsync(self._sink.fileno())
        self._sink.close()
        size = self._path.stat().st_size
        return StagedFile(self._path, self.rows, size, file_digest(self._path))

    def abandon(self) -> None:
        # Closing writes the footer, which fails again on a full disk.
        for close in (self._writer.close, self._sink.close, self._path.unlink):
            with suppress(OSError, pa.ArrowException):
                close()


def schema_file(schema: pa.Schema) -> tuple[str, bytes]:
    """A Parquet file without rows that has the schema: its digest and its bytes."""
    sink = io.BytesIO()
    # Not `empty_table`, which imports pandas.
    rows = pa.Table.from_batches([], schema.remove_metadata())
    pq.write_table(rows, sink, compression="zstd")
    data = sink.getvalue()
    return hashlib.sha256(data).hexdigest()[:FILE_DIGEST_LENGTH], data


def put_schema(store: Store, schema: pa.Schema) -> str:
    """The path of the schema's file without rows, which is created if necessary."""
    path = schema_path(schema)
    if path not in store.put_schemas:
        data = schema_file(schema)[1]
        if store.get(path) != data:
            store.replace(path, data)
        store.put_schemas.add(path)
    return path


def schema_path(schema: pa.Schema) -> str:
    """The path of the schema's file, named by its digest."""
    return f"schemas/{schema_file(schema)[0]}.parquet"


def _cast(table: str, rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        raise ValueError(f"Rows for {table!r} lack the columns: {', '.join(missing)}.")
    extra = [name for name in rows.column_names if name not in schema.names]
    if extra:
        raise ValueError(f"Rows for {table!r} have unknown columns: {', '.join(extra)}.")
    columns = []
    for target in schema:
        column = rows.column(target.name)
        if not target.nullable and column.null_count:
            raise ValueError(f"Column {target.name!r} of {table!r} may not hold nulls.")
        try:
            columns.append(column if column.type == target.type else column.cast(target.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"Column {target.name!r} of {table!r} does not fit {target.type}: {error}."
            ) from error
    return pa.table(columns, schema=schema)
