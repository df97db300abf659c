"""What SQL a person may run: one SELECT, or one EXPLAIN of one.

DuckDB's `read_only` does not stop ``COPY … TO``, nor does it stop ``EXPLAIN ANALYZE COPY``, so
the statement's type decides, before anything runs.
"""

import duckdb


class SqlError(Exception):
    """The query is at fault: one clear sentence; exit code 2."""


_ALLOWED = "Only one SELECT, or one EXPLAIN of one, can be run here"


def checked(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """The query, if it only reads.

    Raises SqlError with one sentence for a syntax error, for several statements, and for whatever
    DuckDB types as anything but SELECT, or EXPLAIN of one.
    """
    statements = _statements(connection, text)
    if not statements:
        raise SqlError("The query is empty.")
    if len(statements) > 1:
        raise SqlError(f"{_ALLOWED}: these are {len(statements)} statements.")
    kind = statements[0].type
    if kind == duckdb.StatementType.SELECT:
        return text
    if kind == duckdb.StatementType.EXPLAIN and _explains_select(connection, text):
        return text
    if kind == duckdb.StatementType.EXPLAIN:
        raise SqlError(f"{_ALLOWED}: this EXPLAIN is of something else.")
    raise SqlError(f"{_ALLOWED}: this is {kind.name}.")


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    try:
        return list(connection.extract_statements(text))
    except duckdb.Error as error:
        raise SqlError(f"The query cannot be read: {_sentence(error)}.") from error


def _explains_select(connection: duckdb.DuckDBPyConnection, text: str) -> bool:
    """Whether what follows EXPLAIN and its options is a SELECT."""
    words = _words(text)
    rest = 1
    while rest < len(words) and words[rest][1].upper() in {"ANALYZE", "ANALYSE", "VERBOSE"}:
        rest += 1
    starts = [rest]
    if rest < len(words) and words[rest][1].startswith("("):
        # Options in brackets, or a SELECT in brackets: whichever reading DuckDB can parse.
        depth = 0
        for index in range(rest, len(words)):
            if words[index][2]:
                depth += words[index][1].count("(") - words[index][1].count(")")
            if depth == 0:
                starts.append(index + 1)
                break
    for start in starts:
        if start < len(words):
            try:
                inner = connection.extract_statements(text[words[start][0] :])
            except duckdb.Error:
                continue
            return len(inner) == 1 and inner[0].type == duckdb.StatementType.SELECT
    return False


def _words(text: str) -> list[tuple[int, str, bool]]:
    """The query's tokens, comments left out: character offset, text, whether an operator."""
    data = text.encode()
    tokens = duckdb.tokenize(text)
    ends = [start for start, _ in tokens[1:]] + [len(data)]
    words = []
    for (start, kind), end in zip(tokens, ends, strict=True):
        word = data[start:end].decode(errors="replace").strip()
        if kind != duckdb.token_type.comment and word:
            offset = len(data[:start].decode(errors="replace"))
            words.append((offset, word, kind == duckdb.token_type.operator))
    return words


def _sentence(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
