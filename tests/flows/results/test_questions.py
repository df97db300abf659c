"""Questions one by one: how each moved, and what came first."""

import duckdb
import pyarrow as pa
import pytest
from known_tables import known_tables
from question_rows import MOVES, question_rows, question_tables

from tercet.flows.results.questions import read_questions
from tercet.tasks.stages import known_schemas


def asked(tables: dict[str, pa.Table], base: str = "old") -> duckdb.DuckDBPyConnection:
    db = known_tables()
    for name, table in tables.items():
        db.register(name, table)
    rows = [
        {"phase": "base", "model_version": base, "seed": 42},
        {"phase": "encoder", "model_version": "new", "seed": 42},
        {"phase": "encoder", "model_version": "other", "seed": 43},
    ]
    db.register("evaluations", pa.Table.from_pylist(rows, known_schemas()["evaluations"]))
    return db


def test_they_are_ordered_by_what_they_gained() -> None:
    rows = read_questions(asked(question_tables()), 42)
    assert [row["query"] for row in rows] == list(MOVES)
    assert [row["gain"] for row in rows] == pytest.approx([100, 20, 0, -20, -90])
    most = rows[0]
    assert (most["before"], most["after"], most["bm25"], most["both"]) == (None, 1, 7, 1)
    assert most["first_before"] == "wrong.md: wrong words"
    assert most["first_after"] == "right.md: right words"
    assert read_questions(asked(question_tables()), 43) == []


def test_where_training_changed_nothing_each_question_is_there_once() -> None:
    """Both evaluations have rows of the one version."""
    rows = read_questions(asked(question_tables(base="new"), base="new"), 42)
    assert len(rows) == len(MOVES)
    assert {row["gain"] for row in rows} == {0.0}


def test_questions_of_dev_stand_back() -> None:
    dev = question_tables(task="mine dev")
    assert len(read_questions(asked(dev), 42)) == len(MOVES)
    test = question_rows()
    tables = {
        name: pa.concat_tables([table, pa.Table.from_pylist(test[name], table.schema)])
        for name, table in dev.items()
        if name != "passages"
    }
    rows = read_questions(asked({**tables, "passages": dev["passages"]}), 42)
    assert {row["task"] for row in rows} == {"mine"}


def test_a_set_of_other_texts_has_no_files() -> None:
    tables = question_tables()
    tables["passages"] = tables["passages"].slice(0, 0)
    assert read_questions(asked(tables), 42)[0]["first_after"] == "right words"
