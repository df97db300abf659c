"""The stage `halves`, on sentences as `ingest` makes them."""

from pathlib import Path

import pyarrow as pa
import pytest
from awareness_corpus import emitted, stored

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.ingest import SENTENCES
from tercet.tasks.evaluation import halves

LONG = (
    "the heron waits in the cold water, sees a fish under the stone "
    "and strikes before it can flee away again"
)


def made(
    tmp_path: Path,
    rows: list[tuple[int, int, str, str]],
    config: halves.HalvesConfig | None = None,
    told: list[dict[str, object]] | None = None,
) -> list[dict[str, object]]:
    """rows: (document, paragraph, text, split), in order; document N is of corpus "cN".

    told: gets the rejects.
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
    sentences = stored(tmp_path, "sentences", pa.table(columns, schema=SENTENCES))
    inputs = {"sentences": rows_of({"sentences": sentences})}
    tables = emitted(halves.STAGE, config or halves.HalvesConfig(), inputs, tmp_path)
    if told is not None:
        told += tables["rejects"].to_pylist()
    return tables["questions"].to_pylist()


def test_paragraphs_of_dev_and_test_alone_are_cut(tmp_path: Path) -> None:
    rows = [
        (1, 0, "A heron stands here.", "test"),
        (1, 0, "It waits for fish.", "test"),
        (1, 1, "Nobody came along today.", "test"),
        (2, 0, LONG, "dev"),
        (3, 0, "A train text is here.", "train"),
        (3, 0, "It must not be cut.", "train"),
    ]
    found = {row["doc_id"]: row for row in made(tmp_path, rows)}
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
    assert [row["doc_id"] for row in made(tmp_path, rows)] == [1]


def test_only_texts_of_the_corpora_that_are_named_are_cut(tmp_path: Path) -> None:
    rows = [(1, 0, LONG, "test"), (2, 0, LONG.replace("heron", "egret"), "test")]
    found = made(tmp_path, rows, halves.HalvesConfig(corpora=("c2",)))
    assert [row["doc_id"] for row in found] == [2]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, 0, "A train text is here, and it is long.", "train")],
        [(1, 0, "A heron stands here.", "test"), (2, 0, "It waits for fish today.", "test")],
        [(1, 0, LONG, "test"), (2, 0, LONG, "test")],
    ],
)
def test_a_split_without_questions_is_a_reject(
    tmp_path: Path, rows: list[tuple[int, int, str, str]]
) -> None:
    told: list[dict[str, object]] = []
    made(tmp_path, rows, told=told)
    (reject,) = (one for one in told if one["text"] == "test")
    assert (reject["reason"], reject["row_id"]) == ("no_halves", None)


def test_a_split_with_questions_says_nothing(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    other = " ".join(LONG.split()[::-1])
    rows = [(1, 0, LONG, "test"), (2, 0, other, "test")]
    assert len(made(tmp_path, rows, told=told)) == 2
    assert [one["text"] for one in told] == ["dev"]
