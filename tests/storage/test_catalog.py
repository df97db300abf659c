"""What a name means in SQL, that SQL only reads, and reaches no further than the store."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from processes import PARTS, ROWS, staged

from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.catalog.read_only import SqlError, checked
from tercet.storage.catalog.views import connect, write_catalog
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, open_store

Schema = list[tuple[str, pa.DataType]]
ONE: Schema = [("x", pa.int64())]
TWO: Schema = [("y", pa.string()), ("x", pa.int64())]


def make(
    store: Store,
    step: str,
    version: str,
    tables: dict[str, tuple[Schema, dict[str, list[Any]]]],
    done: bool = True,
    parents: tuple[str, ...] = (),
) -> Artifact:
    artifact = open_artifact(store, step, version)
    artifact.adopt_plan([{}] if done else [{}, {}])
    schemas = {name: pa.schema(schema) for name, (schema, _) in tables.items()}
    with PartWriter(artifact.scratch(), schemas, 10) as writer:
        for name, (_, rows) in tables.items():
            writer.emit(name, pa.table(rows, schema=schemas[name]))
        part = writer.close()
    artifact.commit(0, part, f"key-{version}", {})
    if done:
        inputs = {"slot": [f"other@{parent}" for parent in parents]}
        artifact.finish({"stage": step.partition(".")[0], "inputs": inputs})
    return artifact


def run(store: Store, *artifacts: Artifact) -> str:
    run_id = runs.start_run(store, "quickstart", {}, {})
    for artifact in artifacts:
        entry = {"version": artifact.version, "state": "made", "seconds": 1.0, "tables": {}}
        runs.record_step(store, run_id, artifact.step, entry)
    runs.end_run(store, run_id, "done", {})
    return run_id


def ask(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(checked(connection, query)).fetchall()


@pytest.fixture
def filled(store: Store) -> Store:
    """Two runs: the newer one reached `generations` (two methods) but not `triplets`."""
    rejects: Schema = [("reason", pa.string())]
    swap = make(
        store,
        "synthesise.swap",
        "5a00",
        {"generations": (ONE, {"x": [1, 2]}), "rejects": (rejects, {"reason": ["short"]})},
    )
    old = make(store, "synthesise.cut", "c000", {"generations": (ONE, {"x": [100]})})
    new = make(
        store,
        "synthesise.cut",
        "c111",
        {"generations": (TWO, {"y": ["a"], "x": [3]}), "rejects": (rejects, {"reason": ["long"]})},
    )
    select = make(
        store, "select", "ffff", {"triplets": (ONE, {"x": [7]})}, parents=("5a00", "c000")
    )
    runs.set_tag(store, "older", run(store, swap, old, select))
    run(store, swap, new)
    return store


def test_a_name_is_the_newest_run_that_reached_it(filled: Store) -> None:
    now = connect(filled)
    rows = ask(now, "SELECT x, y FROM generations ORDER BY x")
    assert rows == [(1, None), (2, None), (3, "a")]
    assert ask(now, "SELECT reason FROM rejects ORDER BY ALL") == [("long",), ("short",)]
    assert ask(now, "SELECT x FROM triplets") == [(7,)]
    then = connect(filled, run="older")
    assert ask(then, "SELECT x FROM generations ORDER BY x") == [(1,), (2,), (100,)]
    newest = connect(filled, run="quickstart")
    assert ask(newest, "SELECT x FROM triplets") == []


def test_versions(filled: Store) -> None:
    now = connect(filled)
    assert ask(now, "SELECT x FROM generations_at('c000')") == [(100,)]
    assert ask(now, "SELECT x, y FROM generations_at('c1')") == [(3, "a")]
    for wrong in ("c", "zz", ""):
        with pytest.raises(duckdb.Error, match="version"):
            ask(now, f"SELECT x FROM generations_at('{wrong}')")


def test_a_step_is_that_of_the_newest_run_that_reached_it(filled: Store) -> None:
    now = connect(filled)
    assert ask(now, "SELECT x FROM generations_at('synthesise.swap')") == [(1,), (2,)]
    assert ask(now, "SELECT x, y FROM generations_at('synthesise.cut')") == [(3, "a")]
    # The newest run has not got as far as the triplets.
    assert ask(now, "SELECT x FROM triplets_at('select')") == [(7,)]
    older = connect(filled, run="older")
    assert ask(older, "SELECT x FROM generations_at('synthesise.cut')") == [(100,)]
    for run_ref, wrong in (("quickstart", "triplets_at('select')"), (None, "triplets_at('train')")):
        with pytest.raises(duckdb.Error, match="step"):
            ask(connect(filled, run=run_ref), f"FROM {wrong}")


def test_a_store_of_a_thousand_versions(store: Store) -> None:
    for number in range(1010):
        last = make(store, "synthesise.cut", f"{number:04x}", {"t": (ONE, {"x": [number]})})
    run(store, last)
    now = connect(store)
    assert ask(now, "SELECT x FROM t") == [(1009,)]
    assert ask(now, "SELECT x FROM t_at('03e7')") == [(999,)]


def test_partial_is_what_is_being_made(filled: Store) -> None:
    # Times are noted in whole milliseconds.
    time.sleep(0.002)
    make(filled, "select", "eeee", {"triplets": (ONE, {"x": [8]})}, done=False)
    now = connect(filled)
    assert ask(now, "SELECT x FROM triplets") == [(7,)]
    assert ask(now, "SELECT x FROM partial.triplets") == [(8,)]
    assert ask(now, "SELECT x FROM partial.generations") == []
    assert ask(now, "SELECT x FROM triplets_at('eeee')") == [(8,)]
    time.sleep(0.002)
    later = make(filled, "select", "dddd", {"triplets": (ONE, {"x": [9]})})
    run(filled, later)
    now = connect(filled)
    assert ask(now, "SELECT x FROM triplets") == [(9,)]
    assert ask(now, "SELECT x FROM partial.triplets") == [], "given up for a newer version"


def test_tables_about_the_store(filled: Store) -> None:
    now = connect(filled)
    assert ask(now, "SELECT step, stage, rows, state, tables FROM artifacts ORDER BY version") == [
        ("synthesise.swap", "synthesise", 3, "done", ["generations", "rejects"]),
        ("synthesise.cut", "synthesise", 1, "done", ["generations"]),
        ("synthesise.cut", "synthesise", 2, "done", ["generations", "rejects"]),
        ("select", "select", 1, "done", ["triplets"]),
    ]
    assert ask(now, "FROM lineage ORDER BY parent") == [("ffff", "5a00"), ("ffff", "c000")]
    assert ask(now, "SELECT recipe, state FROM runs") == [("quickstart", "done")] * 2
    assert ask(now, "SELECT count(*), sum(seconds) FROM run_steps") == [(5, 5.0)]
    assert ask(now, "SELECT tag FROM tags") == [("older",)]
    assert ask(now, "SELECT request_digest FROM responses") == []


def test_an_empty_store_has_the_known_tables(store: Store) -> None:
    schemas = {"triplets": pa.schema([("id", pa.uint64()), ("v", pa.list_(pa.float32()))])}
    now = connect(store, known_schemas=schemas)
    for name in ("triplets", "partial.triplets"):
        assert ask(now, f"FROM {name}") == []
    found = ask(now, "SELECT column_name, column_type FROM (DESCRIBE triplets)")
    assert found == [("id", "UBIGINT"), ("v", "FLOAT[]")]
    assert ask(now, "FROM runs") == []


def test_a_table_without_rows_keeps_its_columns(store: Store) -> None:
    run(store, make(store, "select", "ffff", {"triplets": (TWO, {"x": [], "y": []})}))
    now = connect(store)
    assert ask(now, "SELECT y, x FROM triplets") == []
    assert ask(now, "SELECT y, x FROM triplets_at('ffff')") == []


def test_a_lost_file_is_said_and_spoils_nothing_else(filled: Store) -> None:
    shutil.rmtree(filled.work / "artifacts/select/ffff/data")
    now = connect(filled)
    assert len(ask(now, "FROM generations")) == 3
    for query in ("FROM triplets", "SELECT 1 FROM triplets", "SELECT count(*) FROM triplets"):
        with pytest.raises(duckdb.Error, match="read"):
            ask(now, query)
    assert [row[0] for row in ask(now, "DESCRIBE triplets")] == ["damaged"]
    with duckdb.connect(str(write_catalog(filled)), read_only=True) as client:
        assert len(client.execute("FROM generations").fetchall()) == 3
        with pytest.raises(duckdb.Error, match="read"):
            client.execute("FROM triplets")


def test_a_store_that_was_moved(filled: Store, tmp_path: Path) -> None:
    place = tmp_path / "it's elsewhere"
    filled.work.rename(place)
    moved = open_store(str(place), create=False)
    assert ask(connect(moved), "SELECT x FROM triplets") == [(7,)]
    path = write_catalog(moved)
    with duckdb.connect(str(path), read_only=True) as client:
        assert client.execute("SELECT x FROM triplets").fetchall() == [(7,)]


# DuckDB opens the file twice to connect: seen once in some hundred times, the two differ.
READ = """
import sys, duckdb
def connected():
    for attempt in range(20):
        try:
            return duckdb.connect(sys.argv[1], read_only=True)
        except duckdb.IOException:
            if attempt == 19:
                raise
for _ in range(25):
    with connected() as client:
        rows = client.execute("SELECT count(*), count(DISTINCT part) FROM partial.left").fetchone()
        assert rows[0] == 40 * rows[1], rows
        assert client.execute("SELECT x FROM triplets").fetchall() == [(7,)]
        assert client.execute("SELECT count(*) FROM generations_at('c0')").fetchall() == [(1,)]
"""


def test_the_catalog_file_is_read_while_it_is_written_anew(
    filled: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    path = write_catalog(filled)
    writer = beside("catalogs")
    artifact = open_artifact(filled, "extract", "aaaa")
    artifact.adopt_plan([{} for _ in range(PARTS)])
    artifact.commit(0, staged(artifact, 0), "key0", {})
    write_catalog(filled)
    reader = subprocess.Popen([sys.executable, "-c", READ, str(path)])
    index = 1
    while reader.poll() is None and index < PARTS:
        artifact.commit(index, staged(artifact, index), f"key{index}", {})
        index += 1
        time.sleep(0.01)
    assert reader.wait() == 0
    writer.kill()
    writer.wait()
    (filled.work / ".catalog-1-ab.wal").write_text("")
    write_catalog(filled)
    assert [left.name for left in filled.work.iterdir() if left.name.startswith(".catalog")] == []
    with duckdb.connect(str(path), read_only=True) as client:
        total = client.execute("SELECT count(*) FROM partial.left").fetchall()
    assert total == [(ROWS * index,)]


def test_a_view_computes_columns_for_files_that_lack_them(store: Store) -> None:
    terms = pa.map_(pa.string(), pa.float64())
    schema = pa.schema([("step", pa.int64()), ("terms", terms)], {"gate": "terms['gate']"})
    old = make(store, "train", "old", {"log": ([("gate", pa.float64())], {"gate": [0.5]})})
    rows = {"step": [1, 2], "terms": [[("gate", 0.25)], None]}
    new = make(store, "train.b", "new", {"log": ([("step", pa.int64()), ("terms", terms)], rows)})
    known = {"log": schema}
    with connect(store, known_schemas=known) as empty:
        assert empty.execute("SELECT step, gate FROM log").fetchall() == []
    run(store, old)
    with connect(store, known_schemas=known) as only_old:
        assert only_old.execute("SELECT step, terms, gate FROM log").fetchall() == [
            (None, None, 0.5)
        ]
        assert only_old.execute("SELECT gate FROM log_at('new')").fetchall() == [(0.25,), (None,)]
    run(store, old, new)
    with connect(store, known_schemas=known) as both:
        found = both.execute("SELECT step, gate FROM log ORDER BY step").fetchall()
        assert found == [(1, 0.25), (2, None), (None, 0.5)]


def test_columns_that_files_of_other_versions_lack_are_null(filled: Store) -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.string()), ("z", pa.list_(pa.float32()))])
    with connect(filled, "older", {"generations": schema}) as older:
        rows = ask(older, "SELECT y, z, x FROM generations ORDER BY x")
        assert rows == [(None, None, 1), (None, None, 2), (None, None, 100)]
        assert ask(older, "SELECT z, y FROM generations_at('c111')") == [(None, "a")]


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


def test_an_id_is_expected_to_have_one_row(store: Store) -> None:
    schema: Schema = [("row_id", pa.uint64()), ("x", pa.int64())]
    made = [
        make(store, f"step.{at}", "5a00", {"rows": (schema, {"row_id": ids, "x": ids})})
        for at, ids in (("a", [*range(500)]), ("b", [*range(500, 1000)]))
    ]
    run(store, *made)
    connection = connect(store, known_schemas={"rows": pa.schema(schema)})
    query = "EXPLAIN (FORMAT json) SELECT * FROM rows WHERE row_id = 7"
    ((_, plan),) = connection.execute(query).fetchall()
    estimates = re.findall(r'"Estimated Cardinality": "(\d+)"', plan)
    assert estimates
    assert int(estimates[0]) < 10, plan
    assert ask(connection, "SELECT x FROM rows WHERE row_id IN (7, 700) ORDER BY ALL") == [
        (7,),
        (700,),
    ]
