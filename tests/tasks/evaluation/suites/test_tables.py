"""Labelled pairs, graded pairs and cases of fact order from any kind of table."""

import csv
import gzip
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.tasks.evaluation.suites import duplicates, fact_order
from tercet.tasks.evaluation.suites.own import StsSet
from tercet.tasks.evaluation.suites.sts_sets import describe_skipped, read_sets

Table = list[tuple[Any, ...]]
LABELS = ["sentence1", "sentence2", "label"]
LABELLED: Table = [("one", "eins", 1), ('a "b", c', "d", 0), ("five", "fünf", 1)]
GRADES = ["sentence1", "sentence2", "score"]
GRADED: Table = [
    ("A man plays a guitar, loudly.", "A man plays a guitar, loudly.", 5),
    ("The sky is blue today.", "It rains in Oslo.", 0.5),
    ("A cat sleeps.", "A kitten naps.", 3.9),
    ("A dog runs.", "The market fell.", 0.25),
]
CASE = ["anchor", "rewording", "changed", "kind"]
CASES: Table = [
    ("Ten boats left.", "Out went ten boats.", "Six boats left.", "number"),
    ("Ten boats left.", "There were ten boats that left.", "Ten boats stayed.", "antonym"),
    ("It rains, often.", "Rain is frequent.", "It never rains.", "negation"),
]


def write(path: Path, rows: Table, names: list[str] | None) -> str:
    """The rows in the form that the file's name says; names: None for a file without a header."""
    path.parent.mkdir(exist_ok=True)
    form = path.name.partition(".")[2].removesuffix(".gz")
    out = io.StringIO()
    if form == "parquet":
        columns = list(zip(*rows, strict=True)) or [[] for _ in names or ()]
        pq.write_table(pa.table(list(map(list, columns)), names=names), path)
        return str(path)
    if form == "jsonl":
        out.writelines(json.dumps(dict(zip(names or (), row, strict=True))) + "\n" for row in rows)
    elif form == "csv":
        csv.writer(out).writerows([*([names] if names else []), *rows])
    else:
        lines = [*([names] if names else []), *rows]
        out.writelines("\t".join(map(str, row)) + "\n" for row in lines)
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def graded(source: str, splits: Any = ("test",), **columns: str) -> Any:
    named = {"columns": columns} if columns else {}
    return read_sets({"mine": StsSet.model_validate({"source": source} | named)}, splits)


def pairs(task: Any) -> Table:
    (part,) = task.parts
    return list(zip(part.first, part.second, part.scores.tolist(), strict=True))


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "tsv.gz", "jsonl.gz"])
def test_labelled_pairs_from_any_table(tmp_path: Path, form: str) -> None:
    write(tmp_path / "pairs" / f"quora.{form}", LABELLED, LABELS)
    task = duplicates.read_task(tmp_path, "quora")
    (part,) = task.parts
    assert (task.name, part.first, part.second) == ("quora", *[*zip(*LABELLED, strict=True)][:2])
    assert part.scores.tolist() == [1.0, 0.0, 1.0]
    assert sorted(task.texts()) == sorted([*part.first, *part.second])


@pytest.mark.parametrize("form", ["csv", "tsv", "txt", "jsonl", "parquet", "csv.gz", "txt.gz"])
def test_two_texts_and_a_number_from_any_table(tmp_path: Path, form: str) -> None:
    headers = [GRADES, ["sentence_A", "sentence_B", "relatedness_score"], ["une", "deux", "note"]]
    # Without a header; the first row's texts are the same.
    for names in [*headers, *([None] if form not in ("jsonl", "parquet") else [])]:
        (task,) = graded(write(tmp_path / f"mine.{form}", GRADED, names))
        assert (task.name, task.split, task.skipped) == ("mine", "test", ())
        assert pairs(task) == GRADED


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet"])
def test_cases_from_any_table(tmp_path: Path, form: str) -> None:
    file = write(tmp_path / f"ours.{form}", CASES, CASE)
    (task,) = fact_order.read_cases({"ours": file}, ("dev", "test"))
    assert (task.name, task.split, len(task.texts())) == ("ours", "test", 9)
    assert list(zip(task.anchors, task.rewordings, task.changed, task.kinds, strict=True)) == CASES
    assert task.digest() == fact_order.read_cases({"x": file}, ("test",))[0].digest()


def test_the_digest_is_that_of_the_content_alone(tmp_path: Path) -> None:
    changed = [*LABELLED[:2], ("five", "fünf", 0)]
    for name, rows in (("a.tsv", LABELLED), ("b.jsonl", LABELLED), ("c.parquet", changed)):
        write(tmp_path / "pairs" / name, rows, LABELS)
    assert duplicates.KIND.find(tmp_path, ["test"]) == ["pairs:a", "pairs:b", "pairs:c"]
    digests = {name: duplicates.read_task(tmp_path, name).digest() for name in "abc"}
    assert digests["a"] == digests["b"] != digests["c"]


@pytest.mark.parametrize("value", [True, 1.0, "1", "1.0"])
def test_a_label_may_be_a_number_or_a_truth(tmp_path: Path, value: object) -> None:
    write(tmp_path / "pairs" / "x.jsonl", [("a", "b", value), ("c", "d", 0)], LABELS)
    assert duplicates.read_task(tmp_path, "x").parts[0].scores.tolist() == [1.0, 0.0]


HEADER = "sentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize(
    ("file", "content", "kind", "names"),
    [
        ("x.tsv", "", "missing_column", ["x.tsv", "sentence1"]),
        ("x.csv", "sentence1,text2,label\na,b,1\n", "missing_column", ["sentence2"]),
        ("x.tsv", HEADER, "no_rows", ["x.tsv"]),
        ("x.tsv", f"{HEADER}a\tb\t1\nc\td\n", "bad_row", ["line 3", "label"]),
        ("x.tsv", f"{HEADER}a\tb\t1\nc\td\tnan\n", "bad_row", ["line 3", "label"]),
        ("x.tsv", f"{HEADER}a\tb\t1\nc\td\t0.5\n", "bad_row", ["line 3", "label"]),
        ("x.tsv", f"{HEADER}a\tb\t1\n\td\t0\n", "bad_row", ["line 3", "sentence1"]),
        ("x.tsv", f"{HEADER}a\tb\t1\n", "no_rows", ["x.tsv"]),
        ("x.tsv", f"{HEADER}a\tb\t0\n", "no_rows", ["x.tsv"]),
        ("x.jsonl", '{"sentence1": "a", "sentence2": "b", "label": 1}\n{', "bad_row", ["line 2"]),
        ("x.parquet", "PAR1 not really", "unreadable", ["x.parquet"]),
        ("x.tsv.gz", gzip.compress(HEADER.encode())[:-9], "unreadable", ["x.tsv.gz"]),
    ],
)
def test_bad_files_of_labelled_pairs(
    tmp_path: Path, file: str, content: str | bytes, kind: Any, names: list[str]
) -> None:
    (tmp_path / "pairs").mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "pairs" / file).write_bytes(data)
    with fails(kind, *names):
        duplicates.read_task(tmp_path, "x")


def test_a_number_of_parquet_that_is_none_and_two_files_of_one_name(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs" / "x.parquet", [("a", "b", 1.0), ("c", "d", np.nan)], LABELS)
    with fails("bad_row", "line 2"):
        duplicates.read_task(tmp_path, "x")
    Path(path).with_suffix(".csv").touch()
    with fails("conflict", "x.csv", "x.parquet"):
        duplicates.read_task(tmp_path, "x")


def test_a_column_split_parts_the_cases(tmp_path: Path) -> None:
    rows = [(*row, split) for row, split in zip(CASES, ("dev", "test", "dev"), strict=True)]
    file = write(tmp_path / "ours.tsv", rows, [*CASE, "split"])
    test, dev = fact_order.read_cases({"ours": file}, ("dev", "test"))
    assert (test.split, test.kinds) == ("test", ("antonym",))
    assert (dev.split, dev.kinds) == ("dev", ("number", "negation"))
    assert [t.split for t in fact_order.read_cases({"ours": file}, ("dev",))] == ["dev"]


def test_a_file_inside_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "some_cases" / "ours.tsv", CASES, CASE)
    (tmp_path / "some_cases" / "__init__.py").write_text("raise ImportError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = fact_order.find_case_files({"ours": "package:some_cases/ours.tsv"})
    assert files == {"fact_order/ours": Path(file)}
    assert "some_cases" not in sys.modules
    with fails("missing_package", "no_cases"):
        fact_order.find_case_files({"x": "package:no_cases/ours.tsv"})
    with fails("missing_file", "some_cases/no.tsv"):
        fact_order.find_case_files({"x": "package:some_cases/no.tsv"})


@pytest.mark.parametrize(
    ("rows", "header", "kind", "names"),
    [
        ([CASES[0][:3]], CASE[:3], "missing_column", ["'kind'"]),
        ([], CASE, "no_rows", ["ours.tsv"]),
        ([("a", " ", "b", "c")], CASE, "bad_row", ["line 2", "rewording"]),
        ([CASES[0], ("a", "b", "a", "c")], CASE, "bad_row", ["line 3"]),
        ([("a", "b", "c", "all")], CASE, "bad_row", ["line 2", "'all'"]),
        ([(*CASES[0], "train")], [*CASE, "split"], "bad_row", ["line 2", "'train'"]),
        ([(*CASES[0], "dev")], [*CASE, "split"], "no_rows", ["ours.tsv"]),
    ],
)
def test_bad_files_of_cases(
    tmp_path: Path, rows: Table, header: list[str], kind: Any, names: list[str]
) -> None:
    file = write(tmp_path / "ours.tsv", rows, header)
    with fails(kind, *names):
        fact_order.read_cases({"ours": file}, ("test",))


def test_a_file_may_have_no_cases_or_pairs_of_the_splits_where_none_are_required(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "ours.tsv", CASES, CASE)
    assert fact_order.read_cases({"ours": file}, ("dev",), required=False) == []
    source = StsSet(source=write(tmp_path / "all.csv", GRADED, GRADES))
    assert read_sets({"mine": source}, ("dev",), required=False) == []
    with fails("no_rows"):
        read_sets({"mine": source}, ("dev",))


@pytest.mark.parametrize(
    ("file", "name"), [("a/our cases.v2.tsv.gz", "our_cases"), (".tsv", "fact_order")]
)
def test_a_file_gives_its_task_a_name(file: str, name: str) -> None:
    assert fact_order.name_after(file) == name


def test_columns_beside_the_texts_and_the_score_do_not_confuse(tmp_path: Path) -> None:
    rows = [(place, "main-news", *row) for place, row in enumerate(GRADED)]
    (task,) = graded(write(tmp_path / "mine.tsv", rows, ["id", "genre", "one", "two", "gold"]))
    assert pairs(task) == GRADED
    years = [(2012.5 + row[2], *row) for row in GRADED]
    file = write(tmp_path / "years.tsv", years, ["year", "one", "two", "gold"])
    with fails("missing_column", "'year'", "'one'", "'two'", "'gold'"):
        graded(file)
    assert pairs(*graded(file, anchor="two", positive="one", label="gold"))[1][0] == GRADED[1][1]
    with fails("missing_column", "'uno'"):
        graded(file, anchor="uno", positive="two", label="gold")
    # Without a header columns have numbers.
    bare = write(tmp_path / "bare.tsv", years, None)
    assert pairs(*graded(bare, anchor="2", positive="3", label="4")) == GRADED


@pytest.mark.parametrize("split", ["dev", "Validation", "val", " valid "])
def test_a_column_split_is_read_however_it_is_written(tmp_path: Path, split: str) -> None:
    rows = [*((*row, "Test") for row in GRADED), *((*row, split) for row in GRADED[:3])]
    rows.append((*GRADED[3], "train"))
    for names in ([*GRADES, "split"], ["one", "two", "gold", "SPLIT"]):
        test, dev = graded(write(tmp_path / "mine.csv", rows, names), ("dev", "test"))
        assert (test.split, len(pairs(test)), dev.split, len(pairs(dev))) == ("test", 4, "dev", 3)
        assert test.skipped == dev.skipped == ()


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.decimal256(40, 3)], ids=str)
def test_decimals_are_numbers(tmp_path: Path, kind: Any) -> None:
    first, second, scores = map(list, zip(*GRADED, strict=True))
    numbers = pa.array([Decimal(str(score)) for score in scores], kind)
    file = tmp_path / "mine.parquet"
    for label in ("score", "note"):
        pq.write_table(pa.table({"one": first, "two": second, label: numbers}), file)
        assert pairs(*graded(str(file))) == GRADED


def test_rows_that_cannot_be_used_are_left_out_and_counted(tmp_path: Path) -> None:
    texts, scores = ("", "NaN", "Three words.", "Three words."), (1, 1, "nan", "much")
    bad = [("Two words.", text, score) for text, score in zip(texts, scores, strict=True)]
    (task,) = graded(write(tmp_path / "mine.tsv", [*GRADED, *bad], GRADES))
    assert pairs(task) == GRADED
    assert "missing_text 2, bad_label 2" in str(describe_skipped(task))
    reasons, details, _ = zip(*task.left_out(), strict=True)
    assert reasons == (*["missing_text"] * 2, *["bad_label"] * 2)
    assert "row 9" in details[3]


@pytest.mark.parametrize(
    ("rows", "header", "kind", "names"),
    [
        (GRADED[:2], GRADES, "no_rows", ["2"]),
        ([(*row[:2], 1) for row in GRADED], GRADES, "no_rows", ["1"]),
        (
            [*GRADED[:2], ("a b", "c d", "?"), ("a b", "", 2)],
            GRADES,
            "no_rows",
            ["bad_label 1", "missing_text 1"],
        ),
        ([(*row[:2], "3,5") for row in GRADED], GRADES, "no_rows", ["'3,5'"]),
        ([(*row[:2], "3,5") for row in GRADED], ["a", "b", "c"], "bad_row", ["mine.csv"]),
        ([(*row[:2], "high") for row in GRADED], ["a", "b", "c"], "missing_column", ["mine.csv"]),
        (
            [(row[0], row[2]) for row in GRADED],
            ["text", "stars"],
            "missing_column",
            ["'text'", "'stars'"],
        ),
        ([], None, "missing_column", ["mine.csv"]),
    ],
)
def test_bad_files_of_graded_pairs(
    tmp_path: Path, rows: Table, header: list[str] | None, kind: Any, names: list[str]
) -> None:
    with fails(kind, *names):
        graded(write(tmp_path / "mine.csv", rows, header))


def test_a_file_that_is_not_there_and_one_of_another_form(tmp_path: Path) -> None:
    with fails("missing_file", "none.csv"):
        graded(str(tmp_path / "none.csv"))
    (tmp_path / "mine.xlsx").write_text("x")
    with fails("unreadable", "mine.xlsx"):
        graded(str(tmp_path / "mine.xlsx"))
