"""DuckDB as stages use it: within the memory that a run allows, spilling to the scratch folder."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.storage.rows import quoted
from tercet.tasks.stage import Work

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def connection(
    work: Work, threads: int | None = None, on_disk: bool = False
) -> "Iterator[DuckDBPyConnection]":
    """A database of this call's own, which is gone with it.

    threads: at most so many; None: one a core.
    on_disk: its tables lie in a file, so that memory holds only what a query needs.
    """
    import duckdb

    # A folder for each connection: two that spill into one would write the same files.
    with tempfile.TemporaryDirectory(prefix="duckdb-", dir=work.scratch) as folder:
        database = str(Path(folder, "tables.duckdb")) if on_disk else ":memory:"
        with duckdb.connect(database) as opened:
            opened.execute(f"SET memory_limit = {quoted(work.resources.memory_limit)}")
            opened.execute(f"SET temp_directory = {quoted(folder)}")
            if threads is not None:
                opened.execute(f"SET threads = {threads}")
            yield opened


def ask(work: Work, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows that answer one query."""
    with connection(work) as db:
        found: list[tuple[Any, ...]] = db.execute(query, list(parameters)).fetchall()
    return found
