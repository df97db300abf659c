"""SQL only reads, and reaches no further than the store."""

import hashlib
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from catalog_store import ask

from tercet.storage.catalog.read_only import SqlError, checked
from tercet.storage.catalog.views import connect
from tercet.storage.store import Store

REFUSED = [
    "COPY triplets TO '{out}'",
    "EXPLAIN ANALYZE COPY triplets TO '{out}'",
    "explain/* é */analyze -- x\n COPY triplets TO '{out}'",
    "EXPLAIN (ANALYZE, FORMAT json) COPY triplets TO '{out}'",
    "EXPLAIN (FORMAT json) COPY (SELECT ')') TO '{out}'",
    "SELECT 1; COPY triplets TO '{out}'",
    "ATTACH '{out}' AS other",
    "INSTALL httpfs",
    "LOAD '{out}'",
    "PRAGMA version",
    "SET memory_limit = '1GB'",
    "RESET memory_limit",
    "CALL enable_logging()",
    "CREATE TABLE a AS SELECT 1",
    "EXPLAIN CREATE TABLE a AS SELECT 1",
    "DROP VIEW triplets",
    "INSERT INTO tags VALUES ('a', 'b')",
    "DELETE FROM tags",
    "UPDATE tags SET tag = 'x'",
    "EXPORT DATABASE '{out}'",
    "PREPARE a AS SELECT 1",
    "USE partial",
    "SELEC 1",
    "",
    "-- nothing",
]
ALLOWED = [
    "SELECT 1",
    "FROM triplets;",
    "WITH a AS (SELECT 1 AS b) SELECT b FROM a",
    "DESCRIBE triplets",
    "SHOW TABLES",
    "SUMMARIZE triplets",
    "EXPLAIN SELECT ')' FROM triplets",
    "EXPLAIN (SELECT 1)",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN (FORMAT json) SELECT 1",
    "EXPLAIN (SELECT 1) UNION ALL SELECT 2",
    "EXPLAIN ANALYZE WITH a AS (FROM triplets) FROM a",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
    "WITH a AS MATERIALIZED (VALUES (1)), b AS NOT MATERIALIZED (TABLE tags) FROM a",
    "WITH a AS (WITH b AS (SELECT 1 AS c) FROM b) SELECT (SELECT max(c) FROM a)",
    "WITH a AS (DESCRIBE triplets) FROM a",
    "VALUES (1), (2)",
    "TABLE triplets",
    "(SELECT 1) UNION (SELECT 2) EXCEPT SELECT 3",
    "PIVOT triplets ON x IN (7, 8) USING count(*)",
    "UNPIVOT triplets ON x INTO NAME n VALUE v",
    "SHOW ALL TABLES",
    "DESCRIBE SELECT 1",
    "SUMMARIZE FROM triplets",
    "FROM (SHOW TABLES)",
    "FROM generations_at('c000')",
    "FROM main.\"GENERATIONS_AT\"('c000') WHERE x IN (FROM range(200))",
    "FROM duckdb_tables()",
    "SELECT unnest([1, 2]), row_number() OVER (), [a + 1 FOR a IN [1]] FROM triplets",
    "SELECT * EXCLUDE (x), COLUMNS(*) FROM triplets, range(3) r(i), unnest([1])",
    'SELECT \'insert\', "copy", ("update") FROM (SELECT 1 AS copy, 2 AS "update")',
    "SELECT insert, max(delete) AS update FROM (SELECT 1 AS insert, 2 AS delete) GROUP BY ALL",
    "SELECT '日本 (copy' /* AS (COPY */ -- AS (INSERT\n FROM triplets TABLESAMPLE 50%",
    "FROM read_parquet('{root}/artifacts/select/ffff/data/triplets/*.parquet')",
]
OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_text('{root}/../secret')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{out}')",
    "SELECT * FROM query('COPY triplets TO ''{out}''')",
]


@pytest.mark.parametrize("query", REFUSED)
def test_what_does_not_only_read_is_refused(filled: Store, tmp_path: Path, query: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(SqlError) as caught:
        checked(connect(filled), query.format(out=out))
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_what_reads_is_allowed(filled: Store) -> None:
    now = connect(filled)
    for query in (one.replace("{root}", str(filled.work)) for one in ALLOWED):
        assert checked(now, query) == query
        now.execute(query).fetchall()


def test_nothing_outside_the_store_is_reached(filled: Store, tmp_path: Path) -> None:
    now = connect(filled)
    (tmp_path / "secret").write_text("secret")
    out = tmp_path / "out"
    for query in OUTSIDE:
        with pytest.raises((duckdb.Error, SqlError)):
            ask(now, query.format(root=filled.work, out=out))
    # Even without the check: the settings are locked, and nothing is written outside.
    for query in ("SET enable_external_access = true", f"COPY triplets TO '{out}'"):
        with pytest.raises(duckdb.Error):
            now.execute(query)
    secret = pa.table({"a": [1]})
    assert secret.num_rows == 1
    with pytest.raises(duckdb.Error):
        now.execute("SELECT * FROM secret")
    assert not out.exists()


COPY = "COPY (SELECT 1) TO '{to}' (FORMAT csv)"
# `{to}` is a manifest of the store, `{plan}` what DuckDB makes of the first as JSON.
ATTACKS = [
    f"WITH x AS ({COPY}) SELECT 1",
    f"with x as (\n/* SELECT */ -- (\n{COPY.lower()}) from x",
    f"WITH x AS MATERIALIZED ({COPY}) SELECT 1",
    f"WITH x AS NOT MATERIALIZED ({COPY}) FROM x",
    f"WITH RECURSIVE x AS ({COPY}) SELECT 1",
    f"WITH a AS (SELECT 1), b(c) AS ({COPY}) SELECT 1",
    f"WITH a AS (WITH b AS ({COPY}) SELECT 1) SELECT 1",
    f"WITH a AS (WITH b AS (SELECT 1) {COPY}) SELECT 1",
    f"SELECT (WITH x AS ({COPY}) SELECT 1)",
    f"SELECT * FROM (WITH x AS ({COPY}) SELECT 1)",
    f"SELECT 1 WHERE EXISTS (WITH x AS ({COPY}) SELECT 1)",
    f"VALUES ((WITH x AS ({COPY}) SELECT 1))",
    f"(WITH x AS ({COPY}) SELECT 1) UNION ALL SELECT 2",
    f"DESCRIBE (WITH x AS ({COPY}) SELECT 1)",
    f"SUMMARIZE WITH x AS ({COPY}) SELECT 1",
    f"EXPLAIN ANALYZE WITH x AS ({COPY}) SELECT 1",
    f"EXPLAIN (ANALYZE, FORMAT json) WITH x AS ({COPY}) SELECT 1",
    f"EXPLAIN ANALYZE (WITH x AS ({COPY}) SELECT 1)",
    f"EXPLAIN/**/ANALYZE/**/WITH x AS/**/({COPY}) SELECT 1",
    f"EXPLAIN ANALYZE {COPY}",
    f"WITH x AS ({COPY}) PIVOT x ON a IN (1) USING count(*)",
    f"WITH x AS ({COPY}) PIVOT x ON a",
    f"PIVOT (WITH x AS ({COPY}) SELECT 1 AS a) ON a",
    f"UNPIVOT (WITH x AS ({COPY}) SELECT 1 AS a) ON a",
    f"WITH\u00a0x AS\u2003({COPY}) SELECT 1",
    f"WITH \"é\" AS ({COPY}) SELECT ')'",
    f"WITH x AS ({COPY}) SELECT 1 -- \0",
    f"WITH x AS ({COPY}) SELECT '\ud800'",
    f"WITH x AS (((({COPY})))) SELECT 1",
    f"PREPARE p AS WITH x AS ({COPY}) SELECT 1",
    f"PREPARE p AS WITH x AS ({COPY}) SELECT 1; EXECUTE p",
    "EXECUTE p",
    f"CREATE MACRO m() AS TABLE WITH x AS ({COPY}) SELECT 1",
    f"SELECT 1; WITH x AS ({COPY}) SELECT 1",
    "WITH x AS (INSERT INTO tags VALUES ('a', 'b') RETURNING tag) FROM x",
    "WITH x AS (inSERT INTO tags BY NAME (SELECT 'a' AS tag) RETURNING *) FROM x",
    "WITH x AS (UPDATE tags SET tag = 'x' RETURNING tag) FROM x",
    "WITH x AS (DELETE FROM tags RETURNING tag) FROM x",
    "EXPLAIN ANALYZE WITH x AS (DELETE FROM tags RETURNING tag) FROM x",
    "WITH x AS (SELECT 1) DELETE FROM tags",
    "FROM json_execute_serialized_sql('{plan}')",
    "FROM main.\"JSON_execute_serialized_sql\"('{plan}')",
    "PRAGMA json_execute_serialized_sql('{plan}')",
    "EXPLAIN ANALYZE FROM json_execute_serialized_sql('{plan}')",
    "FROM query('FROM json_execute_serialized_sql(''{plan2}'')')",
    "FROM query('SELECT 1')",
    "FROM enable_logging(storage = 'file', storage_path = '{root}/runs')",
    "SELECT 1 IN (FROM enable_logging(storage = 'file', storage_path = '{root}/runs'))",
    "FROM enable_profiling(save_location = '{root}/runs/profile.json')",
    "FROM arrow_scan(0, 0, 0)",
    "FROM checkpoint()",
]


def _contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("query", ATTACKS)
def test_nothing_in_the_store_is_written(filled: Store, query: str) -> None:
    target = sorted((filled.work / "artifacts").rglob("*.json"))[0]
    now = connect(filled)
    plan = now.execute(
        "SELECT json_serialize_sql($1::VARCHAR)",
        [f"WITH x AS ({COPY.format(to=target)}) SELECT 1"],
    ).fetchall()[0][0]
    assert not json.loads(plan)["error"]
    before, tags_before = _contents(filled.work), now.execute("FROM tags").fetchall()
    for old, new in {
        "{to}": str(target),
        "{root}": str(filled.work),
        "{plan}": plan.replace("'", "''"),
        "{plan2}": plan.replace("'", "'" * 4),
    }.items():
        query = query.replace(old, new)
    with pytest.raises(SqlError) as caught:
        ask(now, query)
    assert "\n" not in str(caught.value)
    assert now.execute("FROM tags").fetchall() == tags_before
    now.close()
    assert _contents(filled.work) == before


def test_the_attacks_would_write(filled: Store) -> None:
    """Without the check the store would change, so that the test above shows something."""
    target = filled.work / "store.json"
    connect(filled).execute(f"WITH x AS ({COPY.format(to=target)}) SELECT 1").fetchall()
    assert target.read_text() != '{"format": 1}'
    assert "format" not in target.read_text()
