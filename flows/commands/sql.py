"""`tercet sql`: runs queries from the argument, a pipe or a prompt on the tables of a run."""

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import typer

from tercet.flows.exports import writing as rows_out
from tercet.flows.exports.writing import whole_file
from tercet.flows.formatting import count_of, standard_output
from tercet.flows.results.queries import connect, sql_fault
from tercet.flows.terminal import text_table
from tercet.storage.catalog.read_only import SqlError, checked
from tercet.storage.rows import quoted_name
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput, Interrupted
from tercet.tasks.stages import meaning

TABLE_ROWS = 200
HELP = """\
A query ends with a semicolon or an empty line; only SELECT and EXPLAIN run here.
.tables           the tables, with their rows
.schema NAME      the columns of a table, and what they mean
.quit             leave (Ctrl-D too); Ctrl-C cancels the line or the query"""


def answer(
    query: str | None, format_: str | None, output: str | None, store: str, run_ref: str | None
) -> None:
    """Answers `query`, or the queries from standard input: typed at a prompt, or piped in.

    With `output` the rows go to a file. format_: None: the format that the file's ending names.
    Raises: BadInput for a faulty query or format, StoreError for a missing store or run.
    """
    format_ = _format(format_, output)
    opened = open_store(store, create=False)
    try:
        # At a prompt each query lists the store anew.
        with nullcontext() if query is None else opened.as_listed():
            if not opened.list("runs"):
                raise BadInput(
                    "not_reached",
                    f"The store {opened.location} has no runs yet, so there is nothing to query: "
                    "start one with `tercet run quickstart`.",
                )
            if query is not None:
                _run(opened, run_ref, query, format_, output)
            elif sys.stdin.isatty():
                _prompt(opened, run_ref, format_, output)
            else:
                _from_pipe(opened, run_ref, format_, output)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe (`| head`): Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _format(chosen: str | None, output: str | None) -> str:
    format_ = chosen or "table"
    ending = Path(output).suffix.removeprefix(".").lower() if output is not None else ""
    if format_ in ("table", "json") and ending in rows_out.FORMATS:
        return ending if format_ == "table" or ending == "jsonl" else format_
    if chosen is None and ending not in ("", "txt"):
        raise BadInput(
            "bad_value",
            f"{output}: no format ends in .{ending}; use {', '.join(rows_out.FORMATS)}, or .txt "
            "for the table as it is shown.",
        )
    if format_ == "parquet" and output is None:
        raise BadInput("missing_key", "Parquet is a binary format: name a file with -o FILE.")
    return format_


def _run(store: Store, run_ref: str | None, query: str, format_: str, output: str | None) -> None:
    """Answers one query over a new connection, which sees the store as it is now."""
    try:
        try:
            _answer(connect(store, run_ref, query), query, format_, output)
        except duckdb.CatalogException:
            # With all tables open, DuckDB can say which name a wrong name may mean.
            _answer(connect(store, run_ref), query, format_, output)
    except SqlError as error:
        raise BadInput(error.kind, str(error)) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise BadInput("bad_query", sql_fault(error)) from error


def _answer(
    opened: duckdb.DuckDBPyConnection, query: str, format_: str, output: str | None
) -> None:
    """Runs the query in a thread and passes Ctrl-C on: DuckDB ignores signals while it works."""
    stopped = threading.Event()
    with closing(opened) as connection, ThreadPoolExecutor(1) as pool:
        answering = pool.submit(_answered, connection, query, format_, output, stopped)
        try:
            answering.result()
        except KeyboardInterrupt:
            stopped.set()
            # An interrupt that arrives before the query starts is lost, so it is repeated.
            while not answering.done():
                connection.interrupt()
                wait([answering], 0.1)
            raise


def _answered(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    format_: str,
    output: str | None,
    stopped: threading.Event,
) -> None:
    relation = connection.sql(checked(connection, query))
    reader = relation.to_arrow_reader(rows_out.BATCH_ROWS)
    batches = _batches(reader, stopped)
    if output is not None:
        _write(reader.schema, batches, format_, Path(output).expanduser())
    elif format_ == "table":
        typer.echo("\n".join(_table(reader.schema, batches, text_table.terminal_width())))
    else:
        rows_out.write_rows(reader.schema, batches, format_, standard_output())


def _batches(reader: pa.RecordBatchReader, stopped: threading.Event) -> Iterator[pa.RecordBatch]:
    """The batches. Raises BadInput for faults that only rows reveal, and Interrupted."""
    while True:
        if stopped.is_set():
            raise Interrupted
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # Arrow reports an error of DuckDB as an error of a file.
            raise BadInput("bad_query", sql_fault(error)) from error
        yield batch


def _write(schema: pa.Schema, batches: Iterator[pa.RecordBatch], format_: str, path: Path) -> None:
    with whole_file(path) as sink:
        if format_ == "table":
            lines = _table(schema, batches, None)
            sink.write(("\n".join(lines) + "\n").encode())
            typer.echo(f"{lines[-1]} in {path}", err=True)
            return
        count = rows_out.write_rows(schema, batches, format_, sink)
    typer.echo(f"{count_of(count, 'row')} in {path}", err=True)


def _table(schema: pa.Schema, batches: Iterator[pa.RecordBatch], width: int | None) -> list[str]:
    """The first rows as text, and the total number of rows."""
    names = schema.names
    shown: list[tuple[Any, ...]] = []
    count = 0
    for batch in batches:
        head = batch.slice(0, max(0, TABLE_ROWS - len(shown)))
        if head.num_rows:
            shown += list(zip(*(column.to_pylist() for column in head.columns), strict=True))
        count += batch.num_rows
    if names == ["explain_key", "explain_value"]:
        return [str(value) for _, value in shown]
    lines, cut = text_table.render(names, shown, width)
    if count > len(shown):
        counted = f"{len(shown):,} of {count_of(count, 'row')}: -o FILE.csv writes all of them"
    else:
        counted = count_of(count, "row")
    return [
        *lines,
        counted + ("; long texts are cut: --format json shows all of them" if cut else ""),
    ]


def _from_pipe(store: Store, run_ref: str | None, format_: str, output: str | None) -> None:
    queries = list(_queries(sys.stdin))
    if not queries:
        raise BadInput(
            "missing_key", 'There is no query: write tercet sql "SELECT …", or pipe one in.'
        )
    if output is not None and len(queries) > 1:
        raise BadInput(
            "bad_value", f"-o takes the rows of a single query, but there are {len(queries)}."
        )
    for query in queries:
        _run(store, run_ref, query, format_, output)


def _queries(lines: Iterator[str] | Any) -> Iterator[str]:
    """The statements in these lines; the last needs no semicolon."""
    waiting = ""
    for line in lines:
        waiting += line
        # SQLite's scanner handles quotes and comments; a line may hold several statements.
        if sqlite3.complete_statement(waiting):
            yield from _split(waiting)
            waiting = ""
    yield from _split(waiting)


def _split(text: str) -> list[str]:
    with closing(duckdb.connect()) as connection:
        try:
            return [statement.query for statement in connection.extract_statements(text)]
        except duckdb.Error:
            # A text that is no SQL: DuckDB reports the fault when it runs the text.
            return [text] if text.strip() else []


def _prompt(store: Store, run_ref: str | None, format_: str, output: str | None) -> None:
    """Reads and answers queries until the user quits. A faulty query does not end the session."""
    _remember_lines()
    typer.echo(
        f"Tables of {run_ref or 'the newest run'} in {store.location}; .help lists commands."
    )
    waiting = ""
    while True:
        try:
            line = input("tercet> " if not waiting else "   ...> ")
        except EOFError:
            typer.echo("")
            return
        except KeyboardInterrupt:
            typer.echo("")
            waiting = ""
            continue
        if not waiting and line.strip() in (".quit", ".exit"):
            return
        try:
            if not waiting and line.strip().startswith("."):
                _command(store, run_ref, line.strip())
                continue
            waiting += line + "\n"
            if sqlite3.complete_statement(waiting) or (not line.strip() and waiting.strip()):
                queries, waiting = _split(waiting), ""
                for query in queries:
                    _run(store, run_ref, query, format_, output)
            elif not waiting.strip():
                waiting = ""
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
        except Exception as error:
            from tercet.flows.terminal.failures import describe_failure

            typer.echo(describe_failure(error), err=True)


def _command(store: Store, run_ref: str | None, line: str) -> None:
    name, _, argument = line.partition(" ")
    argument = argument.strip().rstrip(";").strip('"')
    if name == ".tables":
        typer.echo("\n".join(_tables(store, run_ref)))
    elif name == ".schema" and argument:
        typer.echo("\n".join(_schema(store, run_ref, argument)))
    else:
        typer.echo(HELP)


def _tables(store: Store, run_ref: str | None) -> list[str]:
    with closing(connect(store, run_ref)) as connection:
        names = [row[0] for row in connection.execute(_NAMES).fetchall()]
        rows = [
            (name, *connection.execute(f"SELECT count(*) FROM {quoted_name(name)}").fetchall()[0])
            for name in names
        ]
    return text_table.render(["table", "rows"], rows, text_table.terminal_width())[0]


_NAMES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = 'main' ORDER BY table_name
"""


def _schema(store: Store, run_ref: str | None, table: str) -> list[str]:
    with closing(connect(store, run_ref)) as connection:
        try:
            name = ".".join(map(quoted_name, table.split(".")))
            described = connection.execute(f"DESCRIBE {name}").fetchall()
        except duckdb.Error as error:
            raise BadInput("bad_query", sql_fault(error)) from error
    columns = [(name, kind, meaning(table, name)) for name, kind, *_ in described]
    return text_table.render(["column", "type", "meaning"], columns, text_table.terminal_width())[0]


def _remember_lines() -> None:
    """Enables line editing and history if Python has readline."""
    with suppress(ImportError, OSError):
        import atexit
        import readline

        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        history = Path(state).expanduser() / "tercet" / "sql_history"
        history.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            readline.read_history_file(history)
        readline.set_history_length(1000)

        def save() -> None:
            with suppress(OSError):
                readline.write_history_file(history)

        atexit.register(save)
