"""Tables of questions as people have them: which columns mean what, and which rows are used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import fails

from tercet.tasks.corpus.sources import streams
from tercet.tasks.evaluation.suites import own
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.evaluation.suites.own_questions import Questions, read_questions, readings
from tercet.tasks.stage import BadInput


def read(tmp_path: Path, content: str | bytes, name: str = "mine.csv") -> Questions:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_questions(RetrievalSource.model_validate(str(path)))


def test_a_question_names_a_file_and_quotes_it(tmp_path: Path) -> None:
    asked = read(tmp_path, 'Question;File;Quote\nHow  do I "install"?;guide/a.md;Run it\nWhy?;;\n')
    assert asked.columns == {"question": ("Question",), "file": ("File",), "quote": ("Quote",)}
    first, second = asked.rows
    assert first == (first.row, 'How do I "install"?', "test", "guide/a.md", None, "Run it", 1)
    assert (second.file, second.quote) == (None, None)
    assert asked.unusable == []


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("query,path", {"question": "query", "file": "path"}),
        ("Doc-ID,QUESTION", {"question": "QUESTION", "id": "Doc-ID"}),
        # Beside a file or a quote, `id` numbers the questions.
        ("id,question,file", {"question": "question", "file": "file"}),
        ("id,question,snippet", {"question": "question", "quote": "snippet"}),
        ("id,question,doc_id", {"question": "question", "id": "doc_id"}),
        ("User question,Source File", {"question": "User question", "file": "Source File"}),
        ("question,ticket_id,file", {"question": "question", "file": "file"}),
        ("question,file,File 2,file_3", {"question": "question", "file": "file,File 2,file_3"}),
        ("question,answer1,answer2", {"question": "question", "quote": "answer1,answer2"}),
        ("question,pages,source", {"question": "question", "file": "source"}),
        ("question,gold_url", {"question": "question", "file": "gold_url"}),
        # Several say it, but one is called so.
        ("Query,query_text,doc path", {"question": "Query", "file": "doc path"}),
    ],
)
def test_columns_are_called_as_people_call_them(
    tmp_path: Path, header: str, columns: dict[str, str]
) -> None:
    row = ",".join(["test"] * (header.count(",") + 1))
    found = read(tmp_path, f"{header}\n{row}\n").columns
    assert found == {ours: tuple(named.split(",")) for ours, named in columns.items()}


def test_numbers_are_ids_and_other_forms_are_read(tmp_path: Path) -> None:
    asked = read(tmp_path, '{"query": "Why?", "id": 12}\n{"query": "How?", "id": 1.0}\n', "q.jsonl")
    assert [row.id for row in asked.rows] == ["12", "1"]
    asked = read(tmp_path, "question\tfile\nWhy?\ta, b.md\n", "q.tsv")
    assert [row.file for row in asked.rows] == ["a, b.md"]


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ('{"files": ["a", "b"]}', [("a", None), ("b", None)]),
        ("{\"files\": \"['a', 'b']\"}", [("a", None), ("b", None)]),
        ('{"files": "[a"}', [("[a", None)]),
        ('{"files": ["a", "b"], "quotes": ["x", "y"]}', [("a", "x"), ("b", "y")]),
        ('{"files": ["a", null], "quotes": ["x", "y"]}', [("a", "x"), ("a", "y")]),
        ('{"files": [], "quotes": "[1] x"}', [(None, "[1] x")]),
    ],
)
def test_a_list_holds_several_answers(tmp_path: Path, row: str, answers: object) -> None:
    asked = read(tmp_path, row.replace("{", '{"question": "Why?", ', 1) + "\n", "q.jsonl")
    assert [(one.file, one.quote) for one in asked.rows] == answers


def test_columns_of_one_name_hold_several_answers(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "question,file,file\na,x.md,y.md\n").rows
    assert row.file == "x.md\ny.md"


def test_a_second_column_that_may_name_files_is_said(tmp_path: Path) -> None:
    asked = read(tmp_path, "question,file,alternative_file,file_id\na,x,y,z\n")
    assert ["alternative_file" in one.detail for one in asked.unread] == [True]


def test_grades_are_whole_numbers_or_words(tmp_path: Path) -> None:
    content = "question,file,Relevance\na,x,2\na,y,0\na,z,-1\na,v,1.0\na,w,\na,u,Yes\na,t,no\n"
    assert [one.grade for one in read(tmp_path, content).rows] == [2, 0, -1, 1, 1, 1, 0]
    content = "question,file,is_relevant\na,x,True\na,y,False\n"
    assert [one.grade for one in read(tmp_path, content).rows] == [1, 0]
    asked = read(tmp_path, "question,file,label\na,x,1\na,y,billing\n")
    assert [one.grade for one in asked.rows] == [1, 1]
    assert "grade" not in asked.columns
    assert ["'label'" in one.detail for one in asked.unread] == [True]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("a/b.md", []),
        ("a/b.md#c", ["a/b.md"]),
        ("https://example.org/a/b/?x=1#c", ["a/b"]),
        ("/a%20b.md", ["a b.md"]),
    ],
)
def test_an_address_of_a_site_is_read_as_a_path(name: str, others: list[str]) -> None:
    assert readings(name) == [name, *others]


def test_splits_are_dev_and_test_and_others_are_not_asked(tmp_path: Path) -> None:
    content = "question,file,split\na,x,dev\nb,x,Validation\nc,x,\nd,x,train\ne,x,test\n"
    rows = {row.text: row.split for row in read(tmp_path, content).rows}
    assert rows == {"a": "dev", "b": "dev", "c": "test", "e": "test"}


def test_a_row_without_a_question_is_left_out_with_its_reason(tmp_path: Path) -> None:
    asked = read(tmp_path, "question,file\nWhy?,x.md\n ,x.md\nnull,x.md\n")
    assert [row.text for row in asked.rows] == ["Why?"]
    assert [row.reason for row in asked.unusable] == ["missing_text", "missing_text"]


@pytest.mark.parametrize(
    ("content", "kind", "name"),
    [
        ("question,topic\nx,y\n", "missing_column", "'topic'"),
        ("file,quote\nx,y\n", "missing_column", "`question`"),
        ("question,question_id\nx,1\n", "missing_column", "'question_id'"),
        ("question,document type,page number\nx,y,1\n", "missing_column", "'page number'"),
        ("question,old file,new file\nx,y,z\n", "missing_column", "'old file'"),
        ("", "missing_column", "mine.csv"),
        ("question,file\n,x\n", "no_rows", "row 2"),
        ("question,file\n", "no_rows", "mine.csv"),
        ("question,file,split\nx,y,train\n", "no_rows", "mine.csv"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, kind: Any, name: str) -> None:
    with fails(kind, name):
        read(tmp_path, content)


def test_a_table_that_is_not_there_and_splits_of_a_folder(tmp_path: Path) -> None:
    with fails("missing_file", "nowhere.csv"):
        read_questions(RetrievalSource.model_validate(str(tmp_path / "nowhere.csv")))
    with fails("no_effect", "split"):
        RetrievalSource.model_validate({"source": "q.csv.gz", "dev": "train"})
    assert not RetrievalSource.model_validate({"source": "scifact", "dev": "train"}).is_table


def test_what_a_table_is_called_is_what_the_readers_call_one() -> None:
    assert {*own.TABLES} == {*streams.FORMATS} - {*streams.PLAIN}
    assert own.COMPRESSIONS == streams.COMPRESSIONS
    for name, is_one in (("Q.CSV", True), ("a/q.jsonl.gz", True), ("q.csv.txt", False)):
        assert RetrievalSource(source=name).is_table == is_one


MUTATED = (
    b'question,file,relevance,quote\n"How, then?",a.md;b.md,2,\n',
    b"question\tfile\tfile2\nWhy?\thttps://x.org/a%20b#c\ta.md\n",
    b'{"query": "Why?", "ids": [1, 2.0, null], "answers": "[\'x\']"}\n',
)


@pytest.mark.parametrize("number", range(3))
def test_mutated_tables_are_read_or_refused(tmp_path: Path, number: int) -> None:
    rng = np.random.default_rng(number)
    for round_ in range(100):
        content = bytearray(MUTATED[number] * 3)
        for _ in range(rng.integers(1, 6)):
            at = rng.integers(len(content))
            piece = bytes([rng.choice(list(b",;|[]\"'\n\t%#?\xff\0{}-."))])
            content[at : at + rng.integers(0, 3)] = piece * int(rng.integers(0, 3))
        try:
            asked = read(tmp_path, bytes(content), f"{round_}.{('csv', 'tsv', 'jsonl')[number]}")
        except BadInput:
            continue
        assert asked.rows
        assert all(one.text and isinstance(one.grade, int) for one in asked.rows)
