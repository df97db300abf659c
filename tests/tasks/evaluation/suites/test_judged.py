"""Questions to the run's passages as tasks: what is ranked, and what counts as found."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluation_stage import encoder, model, run_stage, words
from failures import fails
from stages import stored

from tercet.models import seeding
from tercet.storage.rows import Rows
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.evaluation.judgements import JUDGEMENTS
from tercet.tasks.evaluation.suites.judged import judged_tasks, read_judged
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS

__all__ = ["encoder", "model"]

# By shared words, "cats dogs" is nearest to passages 0, 1 and 2; the rest are further from it each.
TEXTS = [
    ("x.md", "cats dogs"),
    ("x.md", "cats dogs cows"),
    ("y.md", "dogs cats hens pigs"),
    ("z.md", "cats newts newts newts newts"),
    ("z.md", "moles"),
]
ASKED = [("mine", "cats dogs", "test", "file", 2), ("mine", "moles", "test", "file", 3)]
ASKED += [("mine", "moles", "test", "file", 4), ("mine", "newts", "dev", "file", 3)]
# No passage has a word of it.
ASKED.append(("mine", "owls", "dev", "file", 3))


def passages() -> pa.Table:
    rows = [
        dict.fromkeys(PASSAGES.names)
        | {"passage_id": 10 + place, "doc_id": place, "corpus": "c", "source": source}
        | {"context": "", "text": text}
        for place, (source, text) in enumerate(TEXTS)
    ]
    return pa.Table.from_pylist(rows, PASSAGES)


def judgements(*rows: tuple[str, str, str, str, int]) -> pa.Table:
    made = [
        (task, seeding.text_id(query), query, split, unit, 10 + place, grade)
        for grade, (task, query, split, unit, place) in enumerate(rows, 1)
    ]
    named = [dict(zip(JUDGEMENTS.names, row, strict=True)) for row in made]
    return pa.Table.from_pylist(named, JUDGEMENTS)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Rows]:
    return stored(tmp_path, passages=passages(), judgements=judgements(*ASKED))


def test_a_file_counts_once(inputs: dict[str, Rows]) -> None:
    test, dev = read_judged(inputs, ("dev", "test"), "mine")
    assert (test.title, test.queries, test.units) == (
        "mine",
        ("cats dogs", "moles"),
        (0, 0, 1, 2, 2),
    )
    assert test.judged == ({1: 1}, {2: 3})
    assert test.documents == tuple(text for _, text in TEXTS)
    assert (dev.title, dev.queries, dev.judged) == ("mine dev", ("newts", "owls"), ({2: 4}, {2: 5}))
    assert read_judged(inputs, ("test",), "other") == []
    assert read_judged({}, ("test",)) == []


def test_passages_and_documents_count_by_themselves() -> None:
    by_passage = judged_tasks(judgements(("p", "a", "test", "passage", 3)), passages(), ("test",))
    assert (by_passage[0].units, by_passage[0].judged) == (None, ({3: 1},))
    by_row = judged_tasks(judgements(("p", "a", "test", "document", 3)), passages(), ("test",))
    assert (by_row[0].units, by_row[0].judged) == ((0, 1, 2, 3, 4), ({3: 1},))
    assert by_passage[0].digest() != by_row[0].digest()


def test_the_figures_are_of_files(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    out = run_stage(tmp_path / "work", model, [], retrieval=False, more=inputs)
    rows = out["evaluations"].to_pylist()
    found: dict[Any, Any] = {(row["task"], row["metric"]): row["value"] for row in rows}
    # y.md comes second, behind one file of two passages, and z.md first.
    assert found["mine", "mrr@10"] == pytest.approx(75.0)
    assert found["mine", "recall@10"] == 100.0
    assert {task for task, _ in found} == {"mine", "mine bm25", "mine hybrid"}


def test_items_join_with_judgements_and_ranks_that_name_the_first_passage(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    pairs = [("one two", "one three", "test"), ("four", "four five", "test")]
    out = run_stage(tmp_path / "work", model, pairs, more=inputs, splits=["dev", "test"])
    items = out["evaluation_items"].to_pylist()
    asked = set(inputs["judgements"].table("judgements")["query_id"].to_pylist())
    assert {i["query_id"] for i in items if i["suite"] == "retrieval_sets"} == asked
    assert {i["query_id"] for i in items if i["suite"] != "retrieval_sets"} <= {None}
    by_item = {(i["task"], i["item"]): i["query_id"] for i in items}
    ranks = {}
    for row in out["question_ranks"].to_pylist():
        assert by_item[row["task"], row["item"]] == row["query_id"]
        ranks[row["task"].split()[0], row["query"], row["way"]] = row
    for way in ("encoder", "bm25", "hybrid"):
        row = ranks["mine", "cats dogs", way]
        # The best answer's file comes second.
        assert (row["rank"], row["first_id"], row["first"]) == (2, 10, "cats dogs")
        assert ranks["mine", "moles", way]["rank"] == 1
    lost = ranks["mine", "owls", "bm25"]
    assert (lost["rank"], lost["first_id"], lost["first"]) == (None, None, None)


def test_passages_are_not_encoded_again_where_they_have_vectors(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    own = run_stage(tmp_path / "a", model, [], retrieval=False, more=inputs)["evaluations"]
    vectors = [words(text) / np.linalg.norm(words(text)) for _, text in TEXTS]
    table = pa.table({"vector": vectors}).cast(pa.schema([PASSAGE_VECTORS.field("vector")]))
    inputs |= stored(tmp_path, passage_vectors=table)
    encoder.seen.clear()
    found = run_stage(tmp_path / "b", model, [], retrieval=False, more=inputs)["evaluations"]
    assert encoder.seen == ["cats dogs", "moles"]
    columns = ["task", "metric", "value", "data_digest"]
    assert found.select(columns) == own.select(columns)
    inputs |= stored(tmp_path, passage_vectors=table.slice(1))
    with fails("damaged", "1", "5"):
        run_stage(tmp_path / "c", model, [], retrieval=False, more=inputs)
