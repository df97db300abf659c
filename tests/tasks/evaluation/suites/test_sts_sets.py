"""Graded pairs of one's own from any table; each fault in one sentence."""

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.tasks.evaluation.suites.own import StsSet
from tercet.tasks.evaluation.suites.sts_sets import describe_skipped, read_sets
from tercet.tasks.stage import BadInput

ROWS: list[tuple[Any, ...]] = [
    ("A man plays a guitar, loudly.", "A man plays a guitar, loudly.", 5),
    ("The sky is blue today.", "It rains in Oslo.", 0.5),
    ("A cat sleeps.", "A kitten naps.", 3.9),
    ("A dog runs.", "The market fell.", 0.25),
]
NAMES = ("sentence1", "sentence2", "score")


def write(path: Path, rows: list[tuple[Any, ...]] = ROWS, names: Any = NAMES) -> str:
    """The rows in the form that the file's name says; names: None for a file without a header."""
    form = path.name.partition(".")[2].removesuffix(".gz")
    lines = [row for row in (names, *rows) if row is not None]
    if form == "parquet":
        pq.write_table(
            pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path
        )
        return str(path)
    if form == "jsonl":
        text = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    elif form == "csv":
        text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in lines)
    else:
        text = "\n".join("\t".join(map(str, row)) for row in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def read(source: str, splits: Any = ("test",), **columns: str) -> Any:
    named = {"columns": columns} if columns else {}
    return read_sets({"mine": StsSet.model_validate({"source": source} | named)}, splits)


def pairs(task: Any) -> list[tuple[Any, ...]]:
    (part,) = task.parts
    return list(zip(part.first, part.second, part.scores.tolist(), strict=True))


@pytest.mark.parametrize("form", ["csv", "tsv", "txt", "jsonl", "parquet", "csv.gz", "tsv.gz"])
@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        ("sentence_A", "sentence_B", "relatedness_score"),
        ("premiere phrase", "deuxieme phrase", "note"),
    ],
    ids=lambda names: names[0],
)
def test_reads_any_table_of_two_texts_and_a_number(tmp_path: Path, form: str, names: Any) -> None:
    (task,) = read(write(tmp_path / f"mine.{form}", names=names))
    assert (task.name, task.split, task.skipped) == ("mine", "test", ())
    assert pairs(task) == ROWS


@pytest.mark.parametrize("form", ["csv", "tsv", "txt", "txt.gz"])
def test_a_file_without_a_header_loses_no_row(tmp_path: Path, form: str) -> None:
    # The first row's texts are the same.
    (task,) = read(write(tmp_path / f"mine.{form}", names=None))
    assert pairs(task) == ROWS


def test_columns_beside_the_texts_and_the_score_do_not_confuse(tmp_path: Path) -> None:
    rows = [(place, "main-news", *row) for place, row in enumerate(ROWS)]
    (task,) = read(write(tmp_path / "mine.tsv", rows, ("id", "genre", "one", "two", "gold")))
    assert pairs(task) == ROWS
    years = [(2012.5 + row[2], *row) for row in ROWS]
    file = write(tmp_path / "years.tsv", years, ("year", "one", "two", "gold"))
    with fails("missing_column", "'year'", "'one'", "'two'", "'gold'"):
        read(file)
    assert pairs(*read(file, anchor="two", positive="one", label="gold"))[1][0] == ROWS[1][1]
    with fails("missing_column", "'uno'"):
        read(file, anchor="uno", positive="two", label="gold")
    # Without a header columns have numbers.
    bare = write(tmp_path / "bare.tsv", years, None)
    assert pairs(*read(bare, anchor="2", positive="3", label="4")) == ROWS


def test_a_column_split_parts_the_pairs(tmp_path: Path) -> None:
    said = ["test"] * 4 + ["validation"] * 3 + ["train"]
    rows = [(*row, split) for row, split in zip([*ROWS, *ROWS], said, strict=True)]
    file = write(tmp_path / "mine.csv", rows, (*NAMES, "split"))
    test, dev = read(file, ("dev", "test"))
    assert (test.split, len(pairs(test)), dev.split, len(pairs(dev))) == ("test", 4, "dev", 3)
    assert test.skipped == dev.skipped == ()
    only_test = write(tmp_path / "all.csv")
    with fails("no_rows"):
        read(only_test, ("dev",))
    assert read_sets({"mine": StsSet(source=only_test)}, ("dev",), required=False) == []


@pytest.mark.parametrize("said", ["dev", "Validation", "val", " valid "])
@pytest.mark.parametrize("name", ["split", "Split", "SPLIT"])
def test_a_column_split_is_read_however_it_is_written(tmp_path: Path, said: str, name: str) -> None:
    rows = [*((*row, "Test") for row in ROWS), *((*row, said) for row in ROWS[:3])]
    for names in (NAMES, ("one", "two", "gold")):
        file = write(tmp_path / "mine.csv", rows, (*names, name))
        test, dev = read(file, ("dev", "test"))
        assert (len(pairs(test)), len(pairs(dev))) == (4, 3)


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.decimal256(40, 3)], ids=str)
def test_decimals_are_numbers(tmp_path: Path, kind: Any) -> None:
    first, second, scores = map(list, zip(*ROWS, strict=True))
    numbers = pa.array([Decimal(str(score)) for score in scores], kind)
    for label in ("score", "note"):
        pq.write_table(
            pa.table({"one": first, "two": second, label: numbers}), tmp_path / "mine.parquet"
        )
        assert pairs(*read(str(tmp_path / "mine.parquet"))) == ROWS


def test_rows_that_cannot_be_used_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = [
        ("Two words.", "", 1),
        ("Two words.", "NaN", 1),
        ("Two words.", "Three words.", "nan"),
        ("Two words.", "Three words.", "much"),
    ]
    (task,) = read(write(tmp_path / "mine.tsv", [*ROWS, *bad]))
    assert pairs(task) == ROWS
    assert "missing_text 2, bad_label 2" in str(describe_skipped(task))
    reasons, details, _ = zip(*task.left_out(), strict=True)
    assert reasons == (*["missing_text"] * 2, *["bad_label"] * 2)
    assert "row 9" in details[3]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (ROWS[:2], "only 2 pairs"),
        ([(*row[:2], 1) for row in ROWS], "the score 1"),
        ([*ROWS[:2], ("a b", "c d", "?"), ("a b", "", 2)], "bad_label 1, missing_text 1"),
        ([(*row[:2], "3,5") for row in ROWS], "'3,5'"),
    ],
)
def test_what_cannot_be_correlated_is_refused(tmp_path: Path, rows: Any, names: str) -> None:
    with pytest.raises(BadInput, match=names):
        read(write(tmp_path / "mine.tsv", rows))


def test_a_file_without_two_texts_and_a_number_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one.csv", [(row[0], row[2]) for row in ROWS], ("text", "stars"))
    with fails("missing_column", "'text'", "'stars'"):
        read(one)
    words = write(tmp_path / "words.csv", [(*row[:2], "high") for row in ROWS], ("a", "b", "c"))
    with fails("missing_column", "words.csv"):
        read(words)
    commas = write(tmp_path / "commas.csv", [(*row[:2], "3,5") for row in ROWS], ("a", "b", "c"))
    with fails("bad_row", "comma"):
        read(commas)
    (tmp_path / "empty.csv").write_text("")
    with fails("missing_column", "empty.csv"):
        read(str(tmp_path / "empty.csv"))
    with fails("missing_file", "none.csv"):
        read(str(tmp_path / "none.csv"))
    (tmp_path / "mine.xlsx").write_text("x")
    with fails("unreadable", "mine.xlsx"):
        read(str(tmp_path / "mine.xlsx"))
