"""Tables of questions as people have them: which columns mean what, and which rows are used."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tercet.tasks.corpus.sources import streams
from tercet.tasks.evaluation.suites import own
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.evaluation.suites.own_questions import Questions, read_questions
from tercet.tasks.stage import BadInput


def read(tmp_path: Path, content: str | bytes, name: str = "mine.csv") -> Questions:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_questions(RetrievalSource.model_validate(str(path)))


def test_a_question_names_a_file_and_quotes_it(tmp_path: Path) -> None:
    asked = read(tmp_path, 'Question;File;Quote\nHow  do I "install"?;guide/a.md;Run it\nWhy?;;\n')
    assert asked.columns == {"question": "Question", "file": "File", "quote": "Quote"}
    first, second = asked.rows
    assert first == (first.row, 'How do I "install"?', "test", "guide/a.md", None, "Run it")
    assert (second.file, second.quote) == (None, None)
    assert asked.unusable == []


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("query,path", {"question": "query", "file": "path"}),
        ("Doc-ID,QUESTION", {"question": "QUESTION", "id": "Doc-ID"}),
        ("question,id", {"question": "question", "id": "id"}),
        # Beside a file or a quote, `id` numbers the questions.
        ("id,question,file", {"question": "question", "file": "file"}),
        ("id,question,snippet", {"question": "question", "quote": "snippet"}),
        ("id,question,doc_id", {"question": "question", "id": "doc_id"}),
        (
            "file name,question,split",
            {"question": "question", "file": "file name", "split": "split"},
        ),
        ("User question,Source File", {"question": "User question", "file": "Source File"}),
        ("query_text,Ticket-ID", {"question": "query_text", "id": "Ticket-ID"}),
        ("question,ticket_id,file", {"question": "question", "file": "file"}),
        # Several say it, but one is called so.
        ("Query,query_text,doc path", {"question": "Query", "file": "doc path"}),
    ],
)
def test_columns_are_called_as_people_call_them(
    tmp_path: Path, header: str, columns: dict[str, str]
) -> None:
    assert (
        read(tmp_path, f"{header}\n{','.join(['test'] * (header.count(',') + 1))}\n").columns
        == columns
    )


def test_numbers_are_ids_and_other_forms_are_read(tmp_path: Path) -> None:
    asked = read(tmp_path, '{"query": "Why?", "id": 12}\n{"query": "How?", "id": 1.0}\n', "q.jsonl")
    assert [row.id for row in asked.rows] == ["12", "1"]
    asked = read(tmp_path, "question\tfile\nWhy?\ta, b.md\n", "q.tsv")
    assert [row.file for row in asked.rows] == ["a, b.md"]


def test_splits_are_dev_and_test_and_others_are_not_asked(tmp_path: Path) -> None:
    content = "question,file,split\na,x,dev\nb,x,Validation\nc,x,\nd,x,train\ne,x,test\n"
    rows = read(tmp_path, content).rows
    assert [(row.text, row.split) for row in rows] == [
        ("a", "dev"), ("b", "dev"), ("c", "test"), ("e", "test"),
    ]  # fmt: skip


def test_a_row_without_a_question_is_left_out_with_its_reason(tmp_path: Path) -> None:
    asked = read(tmp_path, "question,file\nWhy?,x.md\n ,x.md\nnull,x.md\n")
    assert [row.text for row in asked.rows] == ["Why?"]
    assert [row.reason for row in asked.unusable] == ["missing_text", "missing_text"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "question,topic\nx,y\n",
            r"needs a column `question`, .* its columns are 'question', 'topic'",
        ),
        ("file,quote\nx,y\n", "needs a column `question`"),
        ("question,question_id\nx,1\n", "its columns are 'question', 'question_id'"),
        ("question,document type,page number\nx,y,1\n", "its columns are 'question', 'docum"),
        ("question,old file,new file\nx,y,z\n", "its columns are 'question', 'old file'"),
        ("", "its columns are none"),
        ("question,file\n,x\n", r"dev and test \(row 2: column 'question' is blank\)"),
        ("question,file\n", "holds no question of the splits dev and test"),
        ("question,file,split\nx,y,train\n", "holds no question of the splits dev and test"),
    ],
)
def test_a_table_without_questions_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(tmp_path, content)


def test_a_table_that_is_not_there_and_splits_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere.csv' of questions .* does not exist"):
        read_questions(RetrievalSource.model_validate(str(tmp_path / "nowhere.csv")))
    with pytest.raises(ValidationError, match="write dev or test into a column `split`"):
        RetrievalSource.model_validate({"source": "q.csv.gz", "dev": "train"})
    assert not RetrievalSource.model_validate({"source": "scifact", "dev": "train"}).is_table


def test_what_a_table_is_called_is_what_the_readers_call_one() -> None:
    assert {*own.TABLES} == {*streams.FORMATS} - {*streams.PLAIN}
    assert own.COMPRESSIONS == streams.COMPRESSIONS
    for name, is_one in (("Q.CSV", True), ("a/q.jsonl.gz", True), ("q.csv.txt", False)):
        assert RetrievalSource(source=name).is_table == is_one
