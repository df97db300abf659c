"""Committed rows: named tables as lists of Parquet files, read by columns and batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.objects import first_line
from tercet.storage.store import Damaged

BATCH_ROWS = 65_536


def quoted(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted_name(text: str) -> str:
    """The text as an SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def read_parquet_sql(files: Sequence[str], **options: str) -> str:
    """A `read_parquet` call over these files, in order. Folder names such as ``a=b`` never become
    columns.

    options: further arguments, in SQL.
    """
    listed = ", ".join(quoted(file) for file in files)
    further = "".join(f", {name} = {value}" for name, value in options.items())
    return f"read_parquet([{listed}], hive_partitioning = false{further})"


@dataclass(frozen=True)
class Rows:
    """Rows of some artifacts, as listed in their records: directories are never scanned.

    tables: each table's local Parquet files, in order. An empty table has one file without rows,
        which holds its schema.
    versions: the artifacts that the rows come from.
    """

    tables: Mapping[str, tuple[str, ...]]
    versions: tuple[str, ...] = ()

    def files(self, table: str) -> list[str]:
        """The table's files, in order. Raises KeyError, naming the tables, for an unknown one."""
        if table not in self.tables:
            names = ", ".join(sorted(self.tables)) or "none"
            raise KeyError(f"there is no table {table!r} among these rows, there is: {names}")
        return list(self.tables[table])

    def count(self, table: str) -> int:
        """The table's number of rows, from the files' footers."""
        return sum(pq.read_metadata(file).num_rows for file in self.files(table))

    def schema(self, table: str) -> pa.Schema:
        """Columns and types of the table (of its first file)."""
        return pq.read_schema(self.files(table)[0]).remove_metadata()

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole table in memory, in the files' order; `columns` chooses and orders columns."""
        parts = []
        for file in self.files(name):
            with _opened(file) as source:
                parts.append(source.read(columns=None if columns is None else list(columns)))
        table = pa.concat_tables(parts, promote_options="default")
        return table if columns is None else table.select(list(columns))

    def batches(
        self, name: str, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The table in batches of at most `rows` rows, in order; a batch never spans two files."""
        for file in self.files(name):
            with _opened(file) as source:
                chosen = None if columns is None else list(columns)
                for batch in source.iter_batches(batch_size=rows, columns=chosen):
                    if batch.num_rows:
                        yield batch if chosen is None else batch.select(chosen)

    def sql(self, name: str) -> str:
        """The table as an expression for a DuckDB query: ``read_parquet([…], …)``."""
        return read_parquet_sql(self.files(name))


@contextmanager
def _opened(file: str) -> Iterator[pq.ParquetFile]:
    """The file, with its pages' checksums compared. Raises Damaged if it cannot be read."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            yield source
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise Damaged(f"{file} cannot be read ({first_line(error)})") from error


def rows_of(files: Mapping[str, Sequence[str | Path]]) -> Rows:
    """Rows of plain Parquet files that belong to no artifact."""
    return Rows({table: tuple(str(path) for path in paths) for table, paths in files.items()})


def joined(parts: Sequence[Rows]) -> Rows:
    """The concatenated rows of several artifacts, by table."""
    tables: dict[str, tuple[str, ...]] = {}
    versions: dict[str, None] = {}
    for part in parts:
        for table, files in part.tables.items():
            tables[table] = tables.get(table, ()) + tuple(files)
        versions.update(dict.fromkeys(part.versions))
    return Rows(tables, tuple(versions))
