"""The stage `judgements`: questions in tables with the passages that answer them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from stages import emitted, stored

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.evaluation import judgements
from tercet.tasks.evaluation.judgements import JudgementsConfig
from tercet.tasks.findings.figures import FINDINGS
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.stage import Resources, Work

Run = Callable[..., dict[str, pa.Table]]
TICKETS = "id;ticket\nT-7;Cannot log in.\nT-8;Cannot log out.\n"
# Document, source, line, text; passages are numbered from 0.
ROWS = [
    (1, "guide/a.md", 1, "Fetch the tool."),
    (1, "guide/a.md", 1, "Run the tool."),
    (2, "guide/a.md", 57, "An end."),
    (3, "b.md", 1, "Another page."),
    (4, "tickets.csv", 2, "Cannot log in."),
    (5, "tickets.csv", 3, "Cannot log out."),
]
MORE = [(10 + n, "c.md", n, "A page.") for n in range(4)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The tables that the stage makes of a table of questions, and its warnings."""
    (tmp_path / "tickets.csv").write_text(TICKETS)

    def run(content: str, rows: Any = ROWS, **config: Any) -> dict[str, pa.Table]:
        passages = [
            dict.fromkeys(PASSAGES.names)
            | {"passage_id": place, "doc_id": document, "source": source, "text": text}
            | {"path": f"{source}:{line}", "corpus": "c", "context": ""}
            for place, (document, source, line, text) in enumerate(rows)
        ]
        inputs = stored(tmp_path, passages=pa.Table.from_pylist(passages, PASSAGES))
        (tmp_path / "mine.csv").write_text(content)
        corpus = {"name": "c", "source": str(tmp_path / "tickets.csv")}
        settings = {"sets": {"mine": str(tmp_path / "mine.csv")}, "corpora": [corpus]}
        given = JudgementsConfig.model_validate({**settings, "max_line_bytes": 1000, **config})
        tables = emitted(judgements.STAGE, given, inputs, tmp_path)
        stored(tmp_path, **tables)
        own = rows_of({name: [tmp_path / f"{name}.parquet"] for name in tables})
        work = Work(given, 0, inputs, {}, {}, Resources(), tmp_path, lambda *_: None)
        warnings = look_for(FINDINGS["judgements"], Look(work, own, []))
        return {**tables, "warnings": list(warnings)}  # type: ignore[dict-item]

    return run


def answers(tables: dict[str, pa.Table]) -> dict[tuple[str, str, str], list[int]]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in tables["judgements"].to_pylist():
        assert row["query_id"] == seeding.text_id(row["query"])
        found.setdefault((row["query"], row["split"], row["unit"]), []).append(row["passage_id"])
    return found


def test_a_file_is_all_of_its_passages_and_rows_of_one_question_add_up(run: Run) -> None:
    tables = run("question,file,split\nHow?,a.md,\nHow?,b,\nHow?,b.md,\nHow?,b.md,dev\n")
    assert answers(tables) == {("How?", "test", "file"): [0, 1, 2, 3], ("How?", "dev", "file"): [3]}
    (row,) = tables["rejects"].to_pylist()
    assert row["reason"] == "repeated"
    assert "row 4" in row["detail"]
    assert [(one.kind, one.count, one.total) for one in tables["warnings"]] == [("repeated", 1, 1)]


def test_grades_are_gains_and_none_is_no_answer(run: Run) -> None:
    tables = run("question,file,grade\nHow?,guide/a.md,3\nHow?,b.md,0\nHow?,b.md,-1\nWhy?,b.md,0\n")
    assert answers(tables) == {("How?", "test", "file"): [0, 1, 2]}
    assert tables["judgements"]["grade"].to_pylist() == [3, 3, 3]
    assert tables["rejects"]["reason"].to_pylist() == ["repeated", "no_judgement"]


def test_a_question_that_much_answers_is_told(run: Run) -> None:
    tables = run("question,quote,label\nHow?,page,x\nWhy?,tool,y\n", rows=[*ROWS, *MORE])
    assert len(tables["judgements"]) == 7
    kinds = [(one.kind, one.count, one.total) for one in tables["warnings"]]
    assert kinds == [("broad", 1, 2), ("unread", 2, 2)]
    assert "5 of 10" in tables["warnings"][0].message


def test_where_each_row_quotes_passages_are_ranked(run: Run) -> None:
    tables = run("question,file,quote\nHow?,a.md,RUN the\nWhy?,,another  page\n")
    assert answers(tables) == {("How?", "test", "passage"): [1], ("Why?", "test", "passage"): [3]}
    tables = run("question,file,quote\nHow?,a.md,RUN the\nWhy?,b.md,\n")
    assert answers(tables) == {("How?", "test", "file"): [1], ("Why?", "test", "file"): [3]}


def test_an_id_is_that_of_the_corpus_table(run: Run) -> None:
    tables = run("question,id\nHow?,T-8\n")
    assert answers(tables) == {("How?", "test", "document"): [5]}
    # The column that is called as in the questions.
    assert answers(run("question,doc_id\nHow?,T-7\n")) == {("How?", "test", "document"): [4]}


def test_what_is_not_found_is_counted_and_the_others_are_asked(run: Run) -> None:
    lost = "".join(f"Q{number}?,page{number}.md,\n" for number in range(4))
    tables = run(
        f"question,file,quote\nHow?,a.md,\n{lost}How?,,\n,a.md,\nWhy?,b.md,no such words\n"
    )
    assert answers(tables) == {("How?", "test", "file"): [0, 1, 2]}
    assert [row["reason"] for row in tables["rejects"].to_pylist()] == [
        *["no_document"] * 5, "missing_text", "no_passage",
    ]  # fmt: skip
    (warning,) = tables["warnings"]
    assert (warning.kind, warning.key) == ("not_found", "mine")
    # Four, the one that lacks one of its rows, the one without words, and Why?.
    assert (warning.count, warning.total) == (7, 7)


@pytest.mark.parametrize(
    ("content", "kind", "names"),
    [
        (
            "question,path\nHow?,x.md\nWhy?,y.md\n",
            "no_rows",
            ["mine.csv", "row 2", "'x.md'", "'guide/a.md', 'b.md', 'tickets.csv'", "'path'"],
        ),
        ("question,id\nHow?,7\n", "no_rows", ["'T-7', 'T-8'", "'id'"]),
        ("question,answer\nHow?,With a key.\n", "no_rows", ["'answer'"]),
        ("question,answer,file\nHow?,With a key.,a.md\n", "no_rows", ["'answer'"]),
        ("question,file,split\nHow?,a.md,dev\n", "no_rows", ["mine.csv", "test"]),
    ],
)
def test_bad_tables(run: Run, content: str, kind: Any, names: list[str]) -> None:
    with fails(kind, *names):
        run(content)


def test_a_checkpoint_is_chosen_on_questions_of_dev(run: Run) -> None:
    with fails("no_rows"):
        run("question,file\nHow?,a.md\n", chosen_on=("mine",))
    assert answers(run("question,file,split\nHow?,a.md,dev\n", chosen_on=("mine",)))
