"""Ranks of questions one by one, as the stage `evaluate` writes them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beir_folder import write_beir
from evaluation_stage import encoder, model, run_stage

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.evaluation.judgements import JUDGEMENTS

__all__ = ["encoder", "model"]

# By shared words "cats dogs" is nearest to x.md; its answer is y.md, the second of three files.
TEXTS = [("x.md", "cats dogs"), ("x.md", "cats dogs cows"), ("y.md", "dogs cats hens pigs")]
TEXTS += [("z.md", "newts")]


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Rows]:
    passages = [
        dict.fromkeys(PASSAGES.names)
        | {"passage_id": 10 + place, "doc_id": place, "corpus": "c", "source": source}
        | {"context": "", "text": text}
        for place, (source, text) in enumerate(TEXTS)
    ]
    judgements = [
        {"task": "mine", "query_id": seeding.text_id(query), "query": query, "unit": "file"}
        | {"split": split, "passage_id": passage}
        for query, split, passage in (
            ("cats dogs", "test", 12),
            ("newts", "dev", 13),
            ("owls", "test", 13),
        )
    ]
    rows = {"passages": (passages, PASSAGES), "judgements": (judgements, JUDGEMENTS)}
    for name, (table, schema) in rows.items():
        pq.write_table(pa.Table.from_pylist(table, schema), tmp_path / f"{name}.parquet")
    return {name: rows_of({name: [tmp_path / f"{name}.parquet"]}) for name in rows}


def by_query(table: pa.Table) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["task"], row["query"], row["way"]): row for row in table.to_pylist()}


def test_the_best_answers_file_is_ranked_and_the_first_passage_named(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    splits = ["dev", "test"]
    out = run_stage(tmp_path / "work", model, [], retrieval=False, more=inputs, splits=splits)
    rows = by_query(out["question_ranks"])
    assert len(rows) == 3 * 3
    for way in ("encoder", "bm25", "hybrid"):
        asked = rows["mine", "cats dogs", way]
        assert (asked["rank"], asked["first_id"], asked["first"]) == (2, 10, "cats dogs")
        assert rows["mine dev", "newts", way]["rank"] == 1
    # No passage has a word of it.
    lost = rows["mine", "owls", "bm25"]
    assert (lost["rank"], lost["first_id"], lost["first"]) == (None, None, None)


def test_items_join_with_judgements_and_ranks(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    pairs = [("one two", "one three", "test"), ("four", "four five", "test")]
    out = run_stage(tmp_path / "work", model, pairs, more=inputs)
    asked = inputs["judgements"].table("judgements").to_pylist()
    ids = {row["query_id"] for row in asked if row["split"] == "test"}
    items = out["evaluation_items"].to_pylist()
    assert {i["query_id"] for i in items if i["suite"] == "retrieval_sets"} == ids
    assert {i["query_id"] for i in items if i["suite"] != "retrieval_sets"} <= {None}
    by_item = {(i["task"], i["item"]): i["query_id"] for i in items}
    for row in out["question_ranks"].to_pylist():
        assert by_item[row["task"], row["item"]] == row["query_id"]


def test_a_set_in_beirs_layout_names_the_first_text(
    tmp_path: Path, encoder: SimpleNamespace, model: Path
) -> None:
    documents = {"1": "a b c", "2": "x y " + "z " * 200, "3": "x y"}
    folder = write_beir(tmp_path / "ours", documents, {"q": "x y"}, {"test": [("q", "2", 1)]})
    sets = {"ours": str(folder)}
    out = run_stage(tmp_path / "work", model, [], retrieval=False, retrieval_sets=sets)
    row = by_query(out["question_ranks"])["ours", "x y", "encoder"]
    assert (row["rank"], row["first_id"], row["first"]) == (2, None, "x y")
    assert row["query_id"] == seeding.text_id("x y")
