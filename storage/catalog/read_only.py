"""The check of users' SQL: one SELECT, or one EXPLAIN of one, that only reads.

DuckDB's `read_only` prevents neither ``COPY … TO`` nor ``EXPLAIN ANALYZE COPY``, and statements
that it classifies as SELECT can write too: by a CTE (``WITH x AS (COPY …)``) or by functions in
FROM (``enable_logging(storage_path = …)``). Therefore the whole parse tree is checked before the
query runs, and only nodes and functions known to be read-only are allowed.
"""

import json
from typing import Any

import duckdb

from tercet.errors import TercetError
from tercet.storage.objects import first_line


class SqlError(TercetError):
    """A fault in the query; exit code 2."""


_ALLOWED = "Only one SELECT, or one EXPLAIN of one, can be run here"

# The parse tree's query nodes that only read; DuckDB 2.0 also has INSERT_, UPDATE_, DELETE_ and
# COPY_QUERY_NODE.
_READING = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}

# Functions in FROM that only read. Some functions outside this list write files, run SQL hidden in
# strings (query, json_execute_serialized_sql) or read memory (arrow_scan).
_TABLE_FUNCTIONS = {
    "generate_series", "generate_subscripts", "glob", "histogram", "histogram_values", "json_each",
    "json_tree", "parquet_bloom_probe", "parquet_file_metadata", "parquet_full_metadata",
    "parquet_kv_metadata", "parquet_metadata", "parquet_scan", "parquet_schema",
    "pg_timezone_names", "pragma_database_size", "pragma_table_info", "pragma_version",
    "query_table", "range", "read_blob", "read_csv", "read_csv_auto", "read_json",
    "read_json_auto", "read_json_objects", "read_json_objects_auto", "read_ndjson",
    "read_ndjson_auto", "read_ndjson_objects", "read_parquet", "read_text",
    "regexp_split_to_table", "repeat", "repeat_row", "sniff_csv", "summary", "unnest",
    "duckdb_columns", "duckdb_databases", "duckdb_functions", "duckdb_keywords", "duckdb_memory",
    "duckdb_schemas", "duckdb_settings", "duckdb_tables", "duckdb_types", "duckdb_views",
}  # fmt: skip


def checked(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """The query, if it only reads.

    Raises SqlError for a syntax error, for several statements, and for anything but a SELECT, or
    EXPLAIN of one, whose parts are all known to be read-only.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SqlError("unreadable", "The query is not UTF-8 text.") from error
    if "\0" in text:
        raise SqlError("bad_query", "The query contains a NUL character.")
    statements = _statements(connection, text)
    if not statements:
        raise SqlError("bad_query", "The query is empty.")
    if len(statements) > 1:
        raise SqlError("not_read_only", f"{_ALLOWED}: these are {len(statements)} statements.")
    kind = statements[0].type
    if kind == duckdb.StatementType.SELECT:
        _check_select(connection, text)
    elif kind == duckdb.StatementType.EXPLAIN:
        _check_explained(connection, text)
    elif kind == duckdb.StatementType.MULTI:
        raise SqlError(
            "not_read_only",
            f"{_ALLOWED}: DuckDB turns this into several statements; a PIVOT stays one if its "
            "values are named, ON column IN (…).",
        )
    else:
        raise SqlError("not_read_only", f"{_ALLOWED}: this is {kind.name}.")
    return text


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    try:
        return list(connection.extract_statements(text))
    except duckdb.Error as error:
        raise SqlError("bad_query", f"The query cannot be read: {first_line(error)}.") from error


def _check_select(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Raises SqlError unless every part of the SELECT's parse tree is known to be read-only."""
    waiting: list[Any] = [_tree(connection, text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if isinstance(node, dict):
            kind = node.get("type")
            if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _READING:
                raise SqlError(
                    "not_read_only", f"{_ALLOWED}: this contains {kind.partition('_')[0]}."
                )
            if "info_type" in node:
                raise SqlError("not_read_only", f"{_ALLOWED}: this contains {node['info_type']}.")
            if kind == "TABLE_FUNCTION":
                _check_function(connection, node)
            waiting += node.values()


def _tree(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    """The SELECT's parse tree from DuckDB's own parser."""
    try:
        with connection.cursor() as cursor:
            ((serialized,),) = cursor.execute(
                "SELECT json_serialize_sql($1::VARCHAR)", [text]
            ).fetchall()
        tree = json.loads(serialized)
    except (duckdb.Error, ValueError) as error:
        raise SqlError("bad_query", f"The query cannot be read: {first_line(error)}.") from error
    except RecursionError as error:
        raise SqlError("bad_query", "The query cannot be read: it is nested too deeply.") from error
    if tree["error"] or len(tree["statements"]) != 1:
        raise SqlError(
            "not_read_only", f"{_ALLOWED}: {tree.get('error_message', 'this is something else')}."
        )
    return tree


def _check_function(connection: duckdb.DuckDBPyConnection, node: dict[str, Any]) -> None:
    """Raises SqlError unless the function in FROM is read-only or a macro of the catalog."""
    name = str(node["function"].get("function_name", "")).lower()
    if name in _TABLE_FUNCTIONS:
        return
    with connection.cursor() as cursor:
        macros = cursor.execute(
            "SELECT lower(function_name) FROM duckdb_functions() "
            "WHERE function_type = 'table_macro' AND NOT internal"
        ).fetchall()
        builtin = cursor.execute(
            "SELECT 1 FROM duckdb_functions() WHERE internal AND lower(function_name) = $1", [name]
        ).fetchall()
    # DuckDB itself reports unknown names, and suggests the intended one.
    if builtin and (name,) not in macros:
        raise SqlError(
            "not_read_only", f"{_ALLOWED}: the function {name} is not known to be read-only."
        )


def _check_explained(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Raises SqlError unless the statement after EXPLAIN and its options is a read-only SELECT.

    The statement is the first rest of the text, from some word on, that DuckDB can parse.
    """
    data = text.encode()
    words = [start for start, kind in duckdb.tokenize(text) if kind != duckdb.token_type.comment]
    for start in words[1:]:
        rest = data[start:].decode(errors="replace")
        try:
            statements = connection.extract_statements(rest)
        except duckdb.Error:
            continue
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            break
        _check_select(connection, rest)
        return
    raise SqlError("not_read_only", f"{_ALLOWED}: this EXPLAIN is of something else.")
