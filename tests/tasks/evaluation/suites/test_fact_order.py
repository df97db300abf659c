"""Cases of fact order from any kind of table, each fault by file and line."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.tasks.evaluation.suites import fact_order
from tercet.tasks.stage import BadInput

NAMES = ["anchor", "rewording", "changed", "kind"]
ROWS = [
    ("Ten boats left.", "Out went ten boats.", "Six boats left.", "number"),
    ("Ten boats left.", "There were ten boats that left.", "Ten boats stayed.", "antonym"),
    ("It rains, often.", "Rain is frequent.", "It never rains.", "negation"),
]


def write(path: Path, rows=ROWS, names=NAMES) -> str:
    if path.suffix == ".parquet":
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines))
    elif path.suffix == ".csv":
        quoted = ["|".join(row).join('""').replace("|", '","') for row in (names, *rows)]
        path.write_text("\n".join(quoted))
    else:
        path.write_text("\n".join("\t".join(row) for row in (names, *rows)))
    return str(path)


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
def test_reads_any_table(tmp_path, suffix):
    file = write(tmp_path / f"ours.{suffix}")
    (task,) = fact_order.read_cases({"ours": file}, ("dev", "test"))
    assert (task.name, task.split) == ("ours", "test")
    assert list(zip(task.anchors, task.rewordings, task.changed, task.kinds, strict=True)) == ROWS
    assert len(task.texts()) == 9
    assert task.digest() == fact_order.read_cases({"x": file}, ("test",))[0].digest()


def test_a_column_split_parts_the_cases(tmp_path):
    rows = [(*row, split) for row, split in zip(ROWS, ("dev", "test", "dev"), strict=True)]
    file = write(tmp_path / "ours.tsv", rows, [*NAMES, "split"])
    test, dev = fact_order.read_cases({"ours": file}, ("dev", "test"))
    assert (test.split, test.kinds) == ("test", ("antonym",))
    assert (dev.split, dev.kinds) == ("dev", ("number", "negation"))
    assert [t.split for t in fact_order.read_cases({"ours": file}, ("dev",))] == ["dev"]


def test_a_file_without_cases_of_the_splits(tmp_path):
    file = write(tmp_path / "ours.tsv")
    with fails("no_rows", "ours.tsv"):
        fact_order.read_cases({"ours": file}, ("dev",))
    assert fact_order.read_cases({"ours": file}, ("dev",), required=False) == []


def test_a_file_inside_a_package(tmp_path, monkeypatch):
    (tmp_path / "some_cases").mkdir()
    (tmp_path / "some_cases" / "__init__.py").write_text("raise ImportError('imported')")
    write(tmp_path / "some_cases" / "ours.tsv")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = fact_order.find_case_files({"ours": "package:some_cases/ours.tsv"})
    assert files == {"fact_order/ours": tmp_path / "some_cases" / "ours.tsv"}
    assert "some_cases" not in sys.modules
    with fails("missing_package", "no_cases"):
        fact_order.find_case_files({"x": "package:no_cases/ours.tsv"})
    with fails("missing_file", "some_cases/no.tsv"):
        fact_order.find_case_files({"x": "package:some_cases/no.tsv"})


@pytest.mark.parametrize(
    ("rows", "names", "place"),
    [
        ([ROWS[0][:3]], NAMES[:3], "'kind'"),
        ([], NAMES, "ours.tsv"),
        ([("a", " ", "b", "c")], NAMES, "line 2: rewording"),
        ([ROWS[0], ("a", "b", "a", "c")], NAMES, "line 3"),
        ([("a", "b", "c", "all")], NAMES, "line 2: 'all'"),
        ([(*ROWS[0], "train")], [*NAMES, "split"], "line 2.*'train'"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, rows, names, place):
    file = write(tmp_path / "ours.tsv", rows, names)
    with pytest.raises(BadInput, match=place):
        fact_order.read_cases({"ours": file}, ("test",))


@pytest.mark.parametrize(
    ("file", "name"), [("a/our cases.v2.tsv.gz", "our_cases"), (".tsv", "fact_order")]
)
def test_a_file_gives_its_task_a_name(file, name):
    assert fact_order.name_after(file) == name
