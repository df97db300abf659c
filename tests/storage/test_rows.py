"""Rows: tables as lists of files."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import joined, rows_of


def _file(folder: Path, name: str, numbers: list[int]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    table = pa.table(
        {"x": pa.array(numbers, pa.int64()), "t": pa.array([str(n) for n in numbers], pa.string())}
    )
    pq.write_table(table, path)
    return path


def test_order_columns_and_batches(tmp_path: Path) -> None:
    first, second = _file(tmp_path, "b.parquet", [3, 1]), _file(tmp_path, "a.parquet", [2])
    rows = rows_of({"numbers": [first, second]})
    assert rows.count("numbers") == 3
    assert rows.table("numbers")["x"].to_pylist() == [3, 1, 2]
    assert rows.table("numbers", columns=["t", "x"]).column_names == ["t", "x"]
    assert [batch["x"].to_pylist() for batch in rows.batches("numbers", ["x"], rows=1)] == [
        [3],
        [1],
        [2],
    ]
    assert rows.schema("numbers").names == ["x", "t"]


def test_an_empty_table_has_columns_and_no_batches(tmp_path: Path) -> None:
    rows = rows_of({"numbers": [_file(tmp_path, "none.parquet", [])]})
    assert rows.table("numbers").num_rows == 0
    assert list(rows.batches("numbers")) == []
    found = duckdb.connect().execute(f"SELECT x FROM {rows.sql('numbers')}").fetchall()
    assert found == []


def test_sql_of_paths_with_quotes_and_wildcards(tmp_path: Path) -> None:
    folder = tmp_path / "a=1" / "it's [odd]*?"
    rows = rows_of({"numbers": [_file(folder, "1.parquet", [7]), _file(folder, "2.parquet", [8])]})
    found = duckdb.connect().execute(f"SELECT * FROM {rows.sql('numbers')}").fetchall()
    assert found == [(7, "7"), (8, "8")]


def test_joined_keeps_order(tmp_path: Path) -> None:
    one = rows_of({"numbers": [_file(tmp_path, "1.parquet", [1])]})
    two = rows_of({"numbers": [_file(tmp_path, "2.parquet", [2])], "other": ["z"]})
    both = joined([two, one])
    assert both.table("numbers")["x"].to_pylist() == [2, 1]
    assert both.files("other") == ["z"]
