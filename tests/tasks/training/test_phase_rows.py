"""The rows of a phase's parts, source by source, and the mined negatives beside them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from inference_pairs import rows as inference_rows
from stages import stored
from train_stage import inputs

from tercet.models.training.phase import PartRows
from tercet.storage.rows import Rows
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, DOCUMENTS
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.retrieval.negatives import NEGATIVES
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.phase_rows import DRAWS, draws_table, part_rows
from tercet.tasks.training.phases import PartConfig, PhaseConfig

__all__ = ["inputs"]

Inputs = dict[str, Rows]
BLANK: dict[str, Any] = dict.fromkeys(LABELLED.names)
SEARCHED = {"anchor": "query", "positive": "document"}


def part_of(
    inputs: Inputs, folder: Path, source: str = "triplets", loss: str = "info_nce", **rows: Any
) -> PartRows:
    given = {"name": "p", "rows": {"from": source, **rows}, "loss": loss}
    return part_rows(work_on(inputs, folder), "main", PartConfig.model_validate(given))


def rows_from(*given: Any, **rows: Any) -> pa.Table:
    return part_of(*given, **rows).rows


def ids_from(*given: Any, **rows: Any) -> list[int]:
    return list(rows_from(*given, **rows)["row_id"].to_pylist())


def work_on(inputs: Inputs, folder: Path) -> Work:
    return Work(None, 3, inputs, {}, {}, Resources(), folder, lambda *_: None)


def guarded(folder: Path, *texts: str) -> Rows:
    """These texts stand in an evaluation set."""
    table = pa.table({"text": [*texts, "kept"], "removed": [True] * len(texts) + [False]})
    return stored(folder, contamination=table)["contamination"]


def changed(inputs: Inputs, folder: Path, slot: str, column: str, values: list[Any]) -> Inputs:
    """The inputs with other values in a column."""
    table = inputs[slot].table(slot)
    array = pa.array(values, table.schema.field(column).type)
    table = table.set_column(table.column_names.index(column), column, array)
    return {**inputs, **stored(folder / "changed", **{slot: table})}


@pytest.fixture
def queries(inputs: Inputs, tmp_path: Path) -> Inputs:
    """The triplets, of whose sentences the first two are passages: of the first it has a query."""
    rows = inputs["triplets"].table("triplets").to_pylist()
    rows[0] |= {"anchor": "a query", "negative": None, "relation": "topic"}
    own = pa.array([row["sentence_id"] for row in rows[:2]], pa.uint64())
    passages = pa.table({"passage_id": own, "corpus": ["docs", "other"]})
    triplets = pa.Table.from_pylist(rows, TRIPLETS)
    return {**inputs, **stored(tmp_path / "queries", triplets=triplets, passages=passages)}


@pytest.fixture
def pairs(inputs: Inputs, tmp_path: Path) -> Inputs:
    """Document pairs of all splits, labelled rows, and mined negatives of some."""
    rows = [
        {"pair_id": i, "doc_id": i, "query": f"q{i}", "answer": f"a{i}"}
        | {"split": {0: "test", 5: "dev"}.get(i, "train")}
        for i in range(6)
    ]
    documents = [{"doc_id": i, "corpus": "docs" if i > 1 else "other"} for i in range(6)]
    nli = [
        {**BLANK, "row_id": i, "corpus": "nli", "anchor": f"q{i}", "positive": f"a{i}"}
        | {"negative": "own" if i < 3 else None}
        for i in range(1, 5)
    ]
    nli.append({**nli[3], "row_id": 9, "corpus": "qa", "negative": None})
    both = {**nli[0], "corpus": "graded"}
    nli += [{**both, "row_id": 11}, {**both, "row_id": 12, "label": 0.5}]
    # Row 1 has three, row 2 one, row 3 none; row 4 one whose text stands in an evaluation set.
    mined = [(1, 1, "x"), (1, 2, "y"), (1, 3, "z"), (2, 1, "x"), (4, 1, "measured")]
    columns = dict(zip(("triplet_id", "rank", "text"), zip(*mined, strict=True), strict=True))
    negatives = pa.table({name: pa.array(columns[name], NEGATIVES.field(name).type)
                          for name in columns})  # fmt: skip
    return {
        **inputs,
        "guarded_negatives": guarded(tmp_path, "measured"),
        **stored(
            tmp_path / "pairs",
            document_pairs=pa.Table.from_pylist(rows, DOCUMENT_PAIRS),
            documents=pa.Table.from_pylist(documents, DOCUMENTS),
            labelled=pa.Table.from_pylist(nli, LABELLED),
            negatives=negatives,
        ),
    }


def test_triplets_and_pairs_by_corpus_relation_and_number(inputs: Inputs, tmp_path: Path) -> None:
    every = rows_from(inputs, tmp_path, loss="gaussian_decay")
    assert every.column_names == ["row_id", "anchor", "positive", "negative", "label"]
    assert every["row_id"].to_pylist() == list(range(24))
    pairs = rows_from(inputs, tmp_path, "pairs", corpora=["docs"])
    assert pairs.column_names == ["row_id", "anchor", "positive"]
    assert pairs["row_id"].to_pylist() == list(range(1, 24, 2))
    few = ids_from(inputs, tmp_path, max_rows=5)
    assert len(set(few)) == 5
    assert few == ids_from(inputs, tmp_path, max_rows=5)
    assert set(few) < set(ids_from(inputs, tmp_path, max_rows=9))
    strict = ids_from(inputs, tmp_path, loss="pairwise_logistic", relation="alters")
    assert strict == [i for i in range(24) if i % 3]
    topic = ids_from(inputs, tmp_path, "pairs", relation=["topic", "keeps"])
    assert topic == [i for i in range(24) if not i % 3]
    own = rows_from(inputs, tmp_path, loss="pairwise_logistic", positive="anchor")
    assert own["positive"].to_pylist() == own["anchor"].to_pylist() != own["negative"].to_pylist()


@pytest.mark.parametrize(
    ("source", "loss", "rows", "name"),
    [
        ("triplets", "info_nce", {"corpora": ["elsewhere"]}, "select"),
        ("triplets", "info_nce", {"relation": "keeps"}, "relation"),
        ("queries", "info_nce", {"corpora": ["other"]}, "queries"),
        ("qa", "gaussian_decay", {}, "negative"),
        ("none", "info_nce", {}, "none"),
    ],
)
def test_a_source_without_rows(
    queries: Inputs, pairs: Inputs, tmp_path: Path, source: str, loss: str, rows: Any, name: str
) -> None:
    with fails("no_rows", name):
        rows_from({**pairs, **queries}, tmp_path, source, loss, **rows)


def test_queries_are_a_source_of_their_own(queries: Inputs, tmp_path: Path) -> None:
    part = part_of(queries, tmp_path, "queries")
    assert part.rows.select(["row_id", "anchor"]).to_pylist() == [
        {"row_id": 0, "anchor": "a query"}
    ]
    assert part.sides == SEARCHED
    # The second triplet's sentence is a whole passage, and its own anchor.
    assert ids_from(queries, tmp_path) == list(range(1, 24))
    assert len(ids_from(queries, tmp_path, "pairs")) == 23
    assert len(ids_from(queries, tmp_path, "queries", corpora=["docs"])) == 1
    with fails("no_rows", "guard"):
        found = {**queries, "guarded_triplets": guarded(tmp_path, "a query")}
        rows_from(found, tmp_path, "queries")


def test_a_contradiction_without_an_entailment_is_no_row_of_a_phase(
    inputs: Inputs, tmp_path: Path
) -> None:
    given = [*inference_rows(3), {**inference_rows(4)[3], "positive": None}]
    whole, alone = (
        {**inputs, **stored(tmp_path / name, labelled=pa.Table.from_pylist(rows, LABELLED))}
        for name, rows in (("whole", given), ("alone", given[3:]))
    )
    rows = rows_from(whole, tmp_path, "nli")
    assert (rows.num_rows, rows["positive"].null_count) == (3, 0)
    with fails("no_rows", "nli"):
        rows_from(alone, tmp_path, "nli")


def test_anchors_stand_beside_themselves_or_are_cut_in_two(inputs: Inputs, tmp_path: Path) -> None:
    other = rows_from(inputs, tmp_path, "anchors", corpora=["other"])
    assert (other.column_names, other.num_rows) == (["row_id", "anchor", "positive"], 15)
    assert other["anchor"].to_pylist() == other["positive"].to_pylist()
    whole = rows_from(inputs, tmp_path, "anchors")
    texts = dict(zip(whole["row_id"].to_pylist(), whole["anchor"].to_pylist(), strict=True))
    halves = rows_from(inputs, tmp_path, "anchors", positive="half").to_pylist()
    assert [f"{row['anchor']} {row['positive']}" for row in halves] == [
        texts[row["row_id"]] for row in halves
    ]
    long = {row for row, text in texts.items() if len(text.split()) >= 8}
    assert {row["row_id"] for row in halves} == long != set()
    # A sentence is guarded before it is cut.
    found = guarded(tmp_path, texts[halves[0]["row_id"]])
    left = ids_from({**inputs, "guarded_sentences": found}, tmp_path, "anchors", positive="half")
    assert left == [row["row_id"] for row in halves[1:]]
    short = changed(inputs, tmp_path, "sentences", "text", ["two words"] * 40)
    with fails("no_rows", "8"):
        rows_from(short, tmp_path, "anchors", positive="half")


def test_generated_texts_are_drawn_only_where_there_are_some(
    inputs: Inputs, tmp_path: Path
) -> None:
    source = {"source": "anchors", "loss": "nt_xent"}
    assert rows_from(inputs, tmp_path, **source, draw={"generated": 1}).num_rows
    topical = changed(inputs, tmp_path, "triplets", "relation", ["topic"] * 24)
    with fails("no_rows", "generated"):
        rows_from(topical, tmp_path, **source, draw={"generated": 1})
    assert rows_from(topical, tmp_path, **source, draw={"generated": 0}).num_rows


def test_document_pairs_of_the_train_split(pairs: Inputs, tmp_path: Path) -> None:
    part = part_of(pairs, tmp_path, "document_pairs")
    assert part.rows.to_pydict() == {
        "row_id": [1, 2, 3, 4],
        "anchor": ["q1", "q2", "q3", "q4"],
        "positive": ["a1", "a2", "a3", "a4"],
    }
    assert part.sides == SEARCHED
    assert ids_from(pairs, tmp_path, "document_pairs", corpora=["docs"]) == [2, 3, 4]
    own = part_of(pairs, tmp_path, "document_pairs", positive="anchor")
    assert own.sides == {"anchor": "query", "positive": "query"}
    assert part_of(pairs, tmp_path).sides == part_of(pairs, tmp_path, "anchors").sides == {}


def test_rows_of_a_labelled_corpus(pairs: Inputs, tmp_path: Path) -> None:
    graded = rows_from(pairs, tmp_path, "graded", "gaussian_decay")
    assert graded["row_id"].to_pylist() == [11, 12]
    assert np.isnan(graded["label"][0].as_py())
    assert graded["label"][1].as_py() == 0.5
    qa = rows_from(pairs, tmp_path, "qa")
    assert qa.to_pydict() == {"row_id": [9], "anchor": ["q4"], "positive": ["a4"]}


def test_one_row_of_a_sentence_is_told_by_its_candidates(inputs: Inputs, tmp_path: Path) -> None:
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
    other = {"name": "other", "rows": {**each, "from": "pairs"}, "loss": "info_nce"}
    phase = {"name": "main", "parts": [{"name": "p", "rows": each}, other]}
    draws = draws_table(work_on(inputs, tmp_path), PhaseConfig.model_validate(phase), 7, drawn)
    names = ("epoch", "candidate_id", "part", "method")
    # The first triplet's positive is the anchor itself, and no candidate; a pair has no negative.
    assert sorted(tuple(row[name] for name in names) for row in draws.to_pylist()) == [
        (0, 105, "p", "cut"),
        (0, 200, "p", "negation"),
        (0, 205, "p", "negation"),
        (1, 105, "other", "cut"),
    ]
    assert draws.schema == DRAWS
    # That of the training, where several read the same triplets.
    assert {(row["phase"], row["seed"]) for row in draws.to_pylist()} == {("main", 7)}


def test_a_loss_gets_the_directories_of_its_own_slots(inputs: Inputs, tmp_path: Path) -> None:
    given = {"name": "p", "rows": "pairs", "loss": "guided", "models": {"guide": "base"}}
    models = {"backbone": tmp_path, "p.guide": tmp_path / "g", "other.guide": tmp_path / "o"}
    work = replace(work_on(inputs, tmp_path), models=models)
    part = part_rows(work, "main", PartConfig.model_validate(given))
    assert part.slots == {"guide": tmp_path / "g"}


def test_rows_without_a_negative_train_only_where_none_is_needed(
    inputs: Inputs, tmp_path: Path
) -> None:
    texts = [f"text {i}" if i % 2 else None for i in range(24)]
    some = changed(inputs, tmp_path, "triplets", "negative", texts)
    assert ids_from(some, tmp_path, loss="pairwise_logistic") == list(range(1, 24, 2))
    batch = rows_from(some, tmp_path)
    assert (batch["row_id"].to_pylist(), batch["negative"].null_count) == (list(range(24)), 12)


@pytest.mark.parametrize(
    ("source", "loss", "number", "ids", "columns"),
    [
        ("document_pairs", "info_nce", 2, [1, 2, 3, 4],
         {"negative": ["x", "x", None, None], "negative_2": ["y", None, None, None]}),
        # Rows that have no third one make no column of it.
        ("document_pairs", "info_nce", 9, [1, 2, 3, 4],
         {"negative": ["x", "x", None, None], "negative_2": ["y", None, None, None],
          "negative_3": ["z", None, None, None]}),
        # A row's own negative comes after them.
        ("nli", "info_nce", 2, [1, 2, 3, 4],
         {"negative": ["x", "x", None, None], "negative_2": ["y", None, None, None],
          "negative_3": ["own", "own", None, None]}),
        ("document_pairs", "pairwise_logistic", 1, [1, 2], {"negative": ["x", "x"]}),
    ],
)  # fmt: skip
def test_mined_negatives_stand_beside_the_rows_of_a_search(
    pairs: Inputs, tmp_path: Path, source: str, loss: str, number: int, ids: Any, columns: Any
) -> None:
    part = part_of(pairs, tmp_path, source, loss, negatives=number)
    found = part.rows.to_pydict()
    assert found.pop("row_id") == ids
    assert {name: found[name] for name in found if name.startswith("negative")} == columns
    assert part.sides.items() >= SEARCHED.items()
    assert part.sides["negative"] == "document"


def test_where_no_row_has_a_mined_negative_the_margin_is_to_blame(
    pairs: Inputs, tmp_path: Path
) -> None:
    found = {**pairs, "guarded_negatives": guarded(tmp_path / "all", "x", "y", "z", "measured")}
    with fails("no_rows", "negatives.margin"):
        part_of(found, tmp_path, "document_pairs", negatives=1)
