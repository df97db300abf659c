"""Rows of tables as documents: cells that hold nothing, and pairs that lack a text."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault
from tercet.tasks.corpus.sources.tables import label_of, missing

BODY = "The heron stands in the water."


def read(path: Path, **more: Any) -> tuple[list[Document], list[tuple[str, str]]]:
    corpus = CorpusConfig.model_validate({"name": "c", "source": str(path), **more})
    readings = list(files.read(corpus, 2000))
    faults = [(read.path, read.reason) for read in readings if isinstance(read, Fault)]
    return [reading for reading in readings if isinstance(reading, Document)], faults


@pytest.mark.parametrize(
    "value",
    ["NaN", "nan", " NULL ", "None", "N/A", "n/a", "NA", "<NA>", "#N/A", "", None, math.nan],
)
def test_a_value_that_is_missing(value: object) -> None:
    assert missing(value)
    assert label_of(value) is None


@pytest.mark.parametrize("value", ["na", "None of them", "null and void", "0", 0, 0.0, False])
def test_a_value_that_is_there(value: object) -> None:
    assert not missing(value)
    assert label_of(value) is not None


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_missing_text_is_rejected_a_missing_label_none(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    rows = [(BODY, "good"), ("NaN", "good"), (BODY, "n/a")]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": t, "mark": m}) + "\n" for t, m in rows))
    else:
        mark = "," if suffix == ".csv" else "\t"
        path.write_text("".join(f"{t}{mark}{m}\n" for t, m in [("text", "mark"), *rows]))
    documents, faults = read(path, labels="mark")
    assert [document.label for document in documents] == ["good", None]
    second = 2 if suffix == ".jsonl" else 3
    assert faults == [(f"a{suffix}:{second}", "missing_text")]


def test_a_line_of_text_may_say_none(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("None\n")
    assert read(path)[0][0].paragraphs == [["None"]]


def test_a_row_without_its_query_keeps_its_answer_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"title,body\nNaN,{BODY}\nHerons,{BODY}\nHerons,NULL\nNaN,NaN\n")
    names = {"query": "title", "answer": "body"}
    documents, faults = read(path, **names)
    assert [document.pairs for document in documents] == [[], [("Herons", BODY)]]
    assert [document.paragraphs for document in documents] == [[[BODY]], [["Herons"], [BODY]]]
    assert faults == [
        ("a.csv:2", "incomplete_pair"),
        ("a.csv:4", "missing_text"),
        ("a.csv:5", "missing_text"),
    ]
    documents, faults = read(path, **names, limit=2)
    assert (len(documents), faults) == (2, [("a.csv:2", "incomplete_pair")])


def test_a_text_of_its_own_outlives_either_text_of_the_pair(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t,q,a\n{BODY},NaN,Yes\n{BODY},Why?,\nNaN,Why?,Yes\n")
    documents, faults = read(path, text="t", query="q", answer="a")
    assert [(document.paragraphs, document.pairs) for document in documents] == 2 * [([[BODY]], [])]
    assert [reason for _, reason in faults] == [*["incomplete_pair"] * 2, "missing_text"]


@pytest.mark.parametrize(
    ("names", "headings"),
    [({"text": "body"}, []), ({"query": "Title", "answer": "body"}, [(0, 1, "Herons & co")])],
)
def test_the_column_title_is_the_title_and_a_heading_where_it_is_read_as_text(
    names: dict[str, str], headings: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"Title,body\nHerons  & co,{BODY}\n,{BODY}\n")
    documents, _ = read(path, **names)
    assert [document.title for document in documents] == ["Herons & co", None]
    assert [list(document.headings) for document in documents] == [headings, []]
