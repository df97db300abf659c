"""Reading of labelled pairs from any kind of table, each fault by file and line."""

import csv
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.tasks.evaluation.suites import duplicates
from tercet.tasks.stage import BadInput

ROWS = [("one", "eins", 1), ('a "b", c', "d", 0), ("five", "fünf", 1)]
NAMES = ["sentence1", "sentence2", "label"]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pairs").mkdir()
    return tmp_path


def write(root, name, rows=ROWS, names=NAMES):
    path = root / "pairs" / name
    if ".parquet" in name:
        columns = list(zip(*rows, strict=True)) or [[] for _ in names]
        pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), path)
        return path
    if ".jsonl" in name:
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    elif ".csv" in name:
        out = io.StringIO()
        csv.writer(out).writerows([names, *rows])
        text = out.getvalue()
    else:
        text = "".join("\t".join(map(str, row)) + "\n" for row in (names, *rows))
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet", "tsv.gz", "jsonl.gz"])
def test_reads_any_table(root, suffix):
    write(root, f"quora.{suffix}")
    task = duplicates.read_task(root, "quora")
    assert task.name == "quora"
    assert task.first == ("one", 'a "b", c', "five")
    assert task.second == ("eins", "d", "fünf")
    assert task.labels.tolist() == [1.0, 0.0, 1.0]
    assert task.texts() == [*task.first, *task.second]


def test_the_digest_is_that_of_the_content_alone(root):
    write(root, "a.tsv")
    write(root, "b.jsonl")
    write(root, "c.parquet", [*ROWS[:2], ("five", "fünf", 0)])
    assert duplicates.KIND.find(root, ["test"]) == ["pairs:a", "pairs:b", "pairs:c"]
    digests = {name: duplicates.read_task(root, name).digest() for name in "abc"}
    assert digests["a"] == digests["b"] != digests["c"]


@pytest.mark.parametrize("value", [True, 1.0, "1", "1.0"])
def test_a_label_may_be_a_number_or_a_truth(root, value):
    write(root, "x.jsonl", [("a", "b", value), ("c", "d", 0)])
    assert duplicates.read_task(root, "x").labels.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
def test_a_missing_column_is_named(root, suffix):
    write(root, f"x.{suffix}", [("a", "b", 1)], ["sentence1", "text2", "label"])
    with fails("missing_column", suffix, "2"):
        duplicates.read_task(root, "x")


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("x.tsv", "", "x.tsv.*sentence1"),
        ("x.tsv", "sentence1\tsentence2\tlabel\n", "x.tsv holds 0"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\n", "line 3.*label"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\tnan\n", "line 3.*label"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0.5\n", "line 3.*label"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\n\td\t0\n", "line 3: sentence1"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t1\n", "x.tsv holds 1"),
        ("x.tsv", "sentence1\tsentence2\tlabel\na\tb\t0\n", "x.tsv holds 1"),
        ("x.jsonl", '{"sentence1": "a", "sentence2": "b", "label": 1}\n{', "x.jsonl, line 2"),
    ],
)
def test_a_fault_is_named_by_file_and_line(root, name, content, place):
    (root / "pairs" / name).write_text(content)
    with pytest.raises(BadInput, match=place):
        duplicates.read_task(root, "x")


def test_what_is_no_table_is_named(root):
    (root / "pairs" / "x.parquet").write_bytes(b"PAR1 not really")
    with fails("unreadable", "x.parquet"):
        duplicates.read_task(root, "x")
    path = write(root, "y.tsv.gz")
    path.write_bytes(path.read_bytes()[:-9])
    with fails("unreadable", "y.tsv.gz"):
        duplicates.read_task(root, "y")


def test_a_number_of_parquet_that_is_none_is_refused(root):
    write(root, "x.parquet", [("a", "b", 1.0), ("c", "d", np.nan)])
    with fails("bad_row", "line 2"):
        duplicates.read_task(root, "x")


def test_two_files_of_one_name_are_told(root):
    write(root, "x.tsv")
    write(root, "x.csv")
    with fails("conflict", "x.csv", "x.tsv"):
        duplicates.read_task(root, "x")
