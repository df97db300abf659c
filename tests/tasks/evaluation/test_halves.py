"""The stage `halves`, on sentences as `ingest` makes them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stages import emitted, stored

from tercet.models import seeding
from tercet.tasks.corpus.ingest import SENTENCES
from tercet.tasks.evaluation import halves

LONG = (
    "the heron waits in the cold water, sees a fish under the stone "
    "and strikes before it can flee away again"
)


Rows = list[tuple[int, int, str, str]]


def made(tmp_path: Path, rows: Rows, **settings: Any) -> tuple[dict[int, Any], list[str]]:
    """The questions by document, and the splits of the rejects.

    rows: (document, paragraph, text, split), in order; document N is of corpus "cN".
    """
    columns = {
        "sentence_id": seeding.text_ids([row[2] for row in rows]),
        "text": [row[2] for row in rows],
        "corpus": [f"c{row[0]}" for row in rows],
        "source": ["s"] * len(rows),
        "doc_id": [row[0] for row in rows],
        "paragraph": [row[1] for row in rows],
        "position": list(range(len(rows))),
        "n_words": [row[2].count(" ") + 1 for row in rows],
        "split": [row[3] for row in rows],
    }
    inputs = stored(tmp_path, sentences=pa.table(columns, schema=SENTENCES))
    tables = emitted(halves.STAGE, halves.HalvesConfig(**settings), inputs, tmp_path)
    rejects = tables["rejects"].to_pylist()
    assert {row["reason"] for row in rejects} <= {"no_halves"}
    questions = {row["doc_id"]: row for row in tables["questions"].to_pylist()}
    return questions, [row["text"] for row in rejects]


def test_paragraphs_of_dev_and_test_alone_are_cut(tmp_path: Path) -> None:
    rows = [
        (1, 0, "A heron stands here.", "test"),
        (1, 0, "It waits for fish.", "test"),
        (1, 1, "Nobody came along today.", "test"),
        (2, 0, LONG, "dev"),
        (3, 0, "A train text is here.", "train"),
        (3, 0, "It must not be cut.", "train"),
    ]
    found, _ = made(tmp_path, rows)
    assert set(found) == {1, 2}
    assert (found[1]["query"], found[1]["answer"]) == ("A heron stands here.", "It waits for fish.")
    assert found[2]["split"] == "dev"
    assert f"{found[2]['query']} {found[2]['answer']}" == LONG


def test_a_half_that_another_text_has_too_is_no_question(tmp_path: Path) -> None:
    rows = [
        (1, 0, "A heron stands here.", "test"),
        (1, 0, "It waits for fish.", "test"),
        (2, 0, "A grebe swims there.", "test"),
        (2, 0, "It waits for fish.", "test"),
    ]
    assert list(made(tmp_path, rows)[0]) == [1]


def test_only_texts_of_the_corpora_that_are_named_are_cut(tmp_path: Path) -> None:
    rows = [(1, 0, LONG, "test"), (2, 0, LONG.replace("heron", "egret"), "test")]
    assert list(made(tmp_path, rows, corpora=("c2",))[0]) == [2]


@pytest.mark.parametrize(
    ("rows", "without"),
    [
        ([], ["test", "dev"]),
        ([(1, 0, "A train text is here, and it is long.", "train")], ["test", "dev"]),
        (
            [(1, 0, "A heron stands here.", "test"), (2, 0, "It waits for fish today.", "test")],
            ["test", "dev"],
        ),
        ([(1, 0, LONG, "test"), (2, 0, LONG, "test")], ["test", "dev"]),
        ([(1, 0, LONG, "test"), (2, 0, " ".join(LONG.split()[::-1]), "test")], ["dev"]),
    ],
)
def test_a_split_without_questions_is_a_reject(
    tmp_path: Path, rows: Rows, without: list[str]
) -> None:
    assert sorted(made(tmp_path, rows)[1]) == sorted(without)
