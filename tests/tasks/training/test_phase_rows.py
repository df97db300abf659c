"""The rows of a phase's parts, source by source."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from inference_pairs import labelled
from inference_pairs import rows as inference_rows
from train_stage import inputs

from tercet.models.losses.registry import LOSSES, loss_named
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, DOCUMENTS
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.phase_rows import DRAWS, draws_table, part_rows
from tercet.tasks.training.phases import PartConfig, PhaseConfig

__all__ = ["inputs"]


def rows_from(inputs: dict[str, Rows], folder: Path, loss: str = "info_nce", **rows: Any) -> Any:
    """The rows of a part, as a table."""
    part = PartConfig.model_validate({"name": "p", "rows": rows, "loss": loss})
    return part_rows(work_on(inputs, folder), "main", part).rows


def work_on(inputs: dict[str, Rows], folder: Path) -> Work:
    return Work(None, 3, inputs, {}, {}, Resources(), folder, lambda *_: None)


def written(folder: Path, name: str, table: pa.Table) -> Rows:
    pq.write_table(table, folder / f"{name}.parquet")
    return rows_of({name: [folder / f"{name}.parquet"]})


def test_triplets_and_pairs_by_corpus_and_number(inputs: dict[str, Rows], tmp_path: Path) -> None:
    all_rows = rows_from(inputs, tmp_path, "gaussian_decay")
    assert all_rows.column_names == ["row_id", "anchor", "positive", "negative", "label"]
    assert all_rows["row_id"].to_pylist() == list(range(24))
    pairs = rows_from(inputs, tmp_path, **{"from": "pairs"}, corpora=["docs"])
    assert pairs.column_names == ["row_id", "anchor", "positive"]
    assert pairs["row_id"].to_pylist() == list(range(1, 24, 2))
    few = rows_from(inputs, tmp_path, max_rows=5)["row_id"].to_pylist()
    assert len(set(few)) == 5
    assert few == rows_from(inputs, tmp_path, max_rows=5)["row_id"].to_pylist()
    assert set(few) < set(rows_from(inputs, tmp_path, max_rows=9)["row_id"].to_pylist())
    with fails("no_rows", "select"):
        rows_from(inputs, tmp_path, corpora=["elsewhere"])


def with_queries(inputs: dict[str, Rows], folder: Path) -> dict[str, Rows]:
    """The triplets, of whose sentences the first two are passages: of the first it has a query."""
    rows = inputs["triplets"].table("triplets").to_pylist()
    rows[0] |= {"anchor": "a query", "negative": None, "relation": "topic"}
    own = [row["sentence_id"] for row in rows[:2]]
    passages = {"passage_id": pa.array(own, pa.uint64()), "corpus": ["docs", "other"]}
    return {
        **inputs,
        "triplets": written(folder, "triplets", pa.Table.from_pylist(rows, TRIPLETS)),
        "passages": written(folder, "passages", pa.table(passages)),
    }


def test_queries_are_a_source_of_their_own(inputs: dict[str, Rows], tmp_path: Path) -> None:
    given = with_queries(inputs, tmp_path)
    rows = rows_from(given, tmp_path, **{"from": "queries"})
    assert rows.select(["row_id", "anchor"]).to_pylist() == [{"row_id": 0, "anchor": "a query"}]
    # The second triplet's sentence is a whole passage, and its own anchor.
    assert rows_from(given, tmp_path)["row_id"].to_pylist() == list(range(1, 24))
    assert rows_from(given, tmp_path, **{"from": "pairs"}).num_rows == 23
    assert rows_from(given, tmp_path, **{"from": "queries"}, corpora=["docs"]).num_rows == 1
    with fails("no_rows", "queries"):
        rows_from(given, tmp_path, **{"from": "queries"}, corpora=["other"])
    part = PartConfig.model_validate({"name": "p", "rows": "queries", "loss": "info_nce"})
    sides = part_rows(work_on(given, tmp_path), "main", part).sides
    assert sides == {"anchor": "query", "positive": "document"}


def test_a_query_that_the_guard_has_found_is_not_trained_on(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    found = pa.table({"text": ["a query"], "removed": [True]})
    given = with_queries(inputs, tmp_path)
    given["guarded_triplets"] = written(tmp_path, "contamination", found)
    with fails("no_rows", "guard"):
        rows_from(given, tmp_path, **{"from": "queries"})


def test_a_contradiction_without_an_entailment_is_no_row_of_a_phase(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    given = [*inference_rows(3), {**inference_rows(4)[3], "positive": None}]
    more = {**inputs, "labelled": labelled(tmp_path, given)}
    rows = rows_from(more, tmp_path, **{"from": "nli"})
    assert rows.num_rows == 3
    assert rows["positive"].null_count == 0
    nothing = {**inputs, "labelled": labelled(tmp_path / "none", given[3:])}
    with fails("no_rows", "nli"):
        rows_from(nothing, tmp_path, **{"from": "nli"})


def test_anchors_stand_beside_themselves(inputs: dict[str, Rows], tmp_path: Path) -> None:
    rows = rows_from(inputs, tmp_path, **{"from": "anchors"}, corpora=["other"])
    assert rows.column_names == ["row_id", "anchor", "positive"]
    assert rows["anchor"].to_pylist() == rows["positive"].to_pylist()
    assert rows.num_rows == 15


def test_sentences_cut_in_two(inputs: dict[str, Rows], tmp_path: Path) -> None:
    whole = rows_from(inputs, tmp_path, **{"from": "anchors"})
    texts = dict(zip(whole["row_id"].to_pylist(), whole["anchor"].to_pylist(), strict=True))
    rows = rows_from(inputs, tmp_path, **{"from": "anchors"}, positive="half")
    assert rows.column_names == ["row_id", "anchor", "positive"]
    for row, first, second in zip(*rows.to_pydict().values(), strict=True):
        assert f"{first} {second}" == texts[row]
    long = {row for row, text in texts.items() if len(text.split()) >= 8}
    assert long
    assert set(rows["row_id"].to_pylist()) == long


def test_a_sentence_is_guarded_before_it_is_cut(inputs: dict[str, Rows], tmp_path: Path) -> None:
    whole = rows_from(inputs, tmp_path, **{"from": "anchors"}, positive="half")
    first, second = whole["anchor"][0].as_py(), whole["positive"][0].as_py()
    found = pa.table({"text": [f"{first} {second}"], "removed": [True]})
    given = {**inputs, "guarded_sentences": written(tmp_path, "contamination", found)}
    rows = rows_from(given, tmp_path, **{"from": "anchors"}, positive="half")
    assert rows["row_id"].to_pylist() == whole["row_id"].to_pylist()[1:]


def test_sentences_too_short_to_be_cut(inputs: dict[str, Rows], tmp_path: Path) -> None:
    table = inputs["sentences"].table("sentences")
    place = table.column_names.index("text")
    short = table.set_column(place, "text", pa.array(["two words"] * table.num_rows))
    given = {**inputs, "sentences": written(tmp_path, "sentences", short)}
    with fails("no_rows", "8"):
        rows_from(given, tmp_path, **{"from": "anchors"}, positive="half")


def test_generated_texts_are_drawn_only_where_there_are_some(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    source = {"from": "anchors", "draw": {"generated": 1}}
    assert rows_from(inputs, tmp_path, "nt_xent", **source).num_rows
    table = inputs["triplets"].table("triplets")
    place = table.column_names.index("relation")
    others = table.set_column(place, "relation", pa.array(["topic"] * table.num_rows))
    given = {**inputs, "triplets": written(tmp_path, "triplets", others)}
    with fails("no_rows", "generated"):
        rows_from(given, tmp_path, "nt_xent", **source)
    source = {"from": "anchors", "draw": {"generated": 0}}
    assert rows_from(given, tmp_path, "nt_xent", **source).num_rows


def test_document_pairs_of_the_train_split(inputs: dict[str, Rows], tmp_path: Path) -> None:
    pairs = [
        {"pair_id": i, "doc_id": i, "query": f"q{i}", "answer": f"a{i}", "split": split}
        for i, split in enumerate(["train", "test", "train", "dev", "train"])
    ]
    table = pa.Table.from_pylist(pairs, DOCUMENT_PAIRS)
    documents = [{"doc_id": i, "corpus": "docs" if i else "other"} for i in range(5)]
    given = {
        **inputs,
        "document_pairs": written(tmp_path, "document_pairs", table),
        "documents": written(tmp_path, "documents", pa.Table.from_pylist(documents, DOCUMENTS)),
    }
    source = {"from": "document_pairs"}
    rows = rows_from(given, tmp_path, **source)
    assert rows.to_pydict() == {
        "row_id": [0, 2, 4],
        "anchor": ["q0", "q2", "q4"],
        "positive": ["a0", "a2", "a4"],
    }
    assert rows_from(given, tmp_path, **source, corpora=["docs"])["row_id"].to_pylist() == [2, 4]

    def sides(**rows: Any) -> Any:
        part = PartConfig.model_validate({"name": "p", "rows": rows, "loss": "info_nce"})
        return part_rows(work_on(given, tmp_path), "main", part).sides

    assert sides(**source) == {"anchor": "query", "positive": "document"}
    assert sides(**source, positive="anchor") == {"anchor": "query", "positive": "query"}
    assert sides(**{"from": "triplets"}) == sides(**{"from": "anchors"}) == {}


def test_rows_of_a_labelled_corpus(inputs: dict[str, Rows], tmp_path: Path) -> None:
    labelled = pa.table(
        {
            "row_id": pa.array([1, 2, 3], pa.uint64()),
            "corpus": ["nli", "qa", "nli"],
            "kind": ["triplets", "pairs", "triplets"],
            "anchor": ["a", "q", "b"],
            "positive": ["aa", "qq", "bb"],
            "negative": ["not a", None, "not b"],
            "label": pa.array([None, None, 0.5], pa.float32()),
            "entries": pa.nulls(3, pa.list_(pa.int32())),
        }
    )
    given = {"labelled": written(tmp_path, "labelled", labelled)}
    nli = rows_from(given, tmp_path, "gaussian_decay", **{"from": "nli"})
    assert nli["row_id"].to_pylist() == [1, 3]
    assert np.isnan(nli["label"][0].as_py())
    assert nli["label"][1].as_py() == 0.5
    qa = rows_from(given, tmp_path, **{"from": "qa"})
    assert qa.to_pydict() == {"row_id": [2], "anchor": ["q"], "positive": ["qq"]}
    with fails("no_rows", "negative"):
        rows_from(given, tmp_path, "gaussian_decay", **{"from": "qa"})
    with fails("no_rows", "none"):
        rows_from(given, tmp_path, **{"from": "none"})


def test_one_row_of_a_sentence_is_told_by_its_candidates(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    rows = rows_from(inputs, tmp_path, one_per="sentence")
    sentences = inputs["triplets"].table("triplets")["sentence_id"]
    assert rows["group"].to_pylist() == sentences.to_pylist()
    drawn = pa.table(
        {
            "epoch": pa.array([0, 0, 1], pa.int32()),
            "part": ["p", "p", "other"],
            "group": rows["group"].take(pa.array([0, 5, 5])),
            "row_id": pa.array([0, 5, 5], pa.uint64()),
        }
    )
    each = {"from": "triplets", "one_per": "sentence"}
    phase = PhaseConfig.model_validate(
        {
            "name": "main",
            "parts": [
                {"name": "p", "rows": each},
                {"name": "other", "rows": {**each, "from": "pairs"}, "loss": "info_nce"},
            ],
        }
    )
    told = draws_table(work_on(inputs, tmp_path), phase, 7, drawn)
    found = [
        (row["part"], row["epoch"], row["candidate_id"], row["method"])
        for row in sorted(told.to_pylist(), key=lambda row: (row["epoch"], row["candidate_id"]))
    ]
    # The first triplet's positive is the anchor itself, and no candidate; a pair has no negative.
    assert found == [
        ("p", 0, 105, "cut"),
        ("p", 0, 200, "negation"),
        ("p", 0, 205, "negation"),
        ("other", 1, 105, "cut"),
    ]
    assert told.schema == DRAWS
    assert set(told["phase"].to_pylist()) == {"main"}
    # That of the training, where several read the same triplets.
    assert set(told["seed"].to_pylist()) == {7}


def test_a_loss_gets_the_directories_of_its_own_slots(
    inputs: dict[str, Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = replace(loss_named("info_nce"), name="reads", slots=("teacher",))
    monkeypatch.setitem(LOSSES, "reads", reads)  # type: ignore[arg-type]
    given = {"name": "p", "rows": "pairs", "loss": "reads", "models": {"teacher": "base"}}
    models = {"backbone": tmp_path, "p.teacher": tmp_path / "t", "other.teacher": tmp_path / "o"}
    work = replace(work_on(inputs, tmp_path), models=models)
    assert part_rows(work, "main", PartConfig.model_validate(given)).slots == {
        "teacher": tmp_path / "t"
    }


def test_triplets_of_a_relation(inputs: dict[str, Rows], tmp_path: Path) -> None:
    strict = rows_from(inputs, tmp_path, "pairwise_logistic", relation="alters")
    assert strict["row_id"].to_pylist() == [i for i in range(24) if i % 3]
    topic = rows_from(inputs, tmp_path, **{"from": "pairs"}, relation=["topic", "keeps"])
    assert topic["row_id"].to_pylist() == [i for i in range(24) if not i % 3]
    with fails("no_rows", "relation"):
        rows_from(inputs, tmp_path, relation="keeps")


def test_the_anchor_may_be_its_own_positive(inputs: dict[str, Rows], tmp_path: Path) -> None:
    rows = rows_from(inputs, tmp_path, "pairwise_logistic", positive="anchor")
    assert rows["positive"].to_pylist() == rows["anchor"].to_pylist()
    assert rows["negative"].to_pylist() != rows["anchor"].to_pylist()


def test_rows_without_a_negative_train_only_where_none_is_needed(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    table = inputs["triplets"].table("triplets")
    place = table.column_names.index("negative")
    some = pa.array([text if i % 2 else None for i, text in enumerate(table["negative"])])
    texts = pa.array([None if i % 2 == 0 else str(t) for i, t in enumerate(some)])
    given = {
        **inputs,
        "triplets": written(tmp_path, "triplets", table.set_column(place, "negative", texts)),
    }
    assert rows_from(given, tmp_path, "pairwise_logistic")["row_id"].to_pylist() == list(
        range(1, 24, 2)
    )
    batch = rows_from(given, tmp_path, "info_nce")
    assert batch["row_id"].to_pylist() == list(range(24))
    assert batch["negative"].null_count == 12
