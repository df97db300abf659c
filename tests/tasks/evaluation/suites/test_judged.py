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

# By shared words, "a b" is nearest to passages 0, 1 and 2; the rest are further from it each.
TEXTS = [
    ("x.md", "a b"),
    ("x.md", "a b c"),
    ("y.md", "b a d e"),
    ("z.md", "a q q q q"),
    ("z.md", "m"),
]
ASKED = [("mine", "a b", "test", "file", 2), ("mine", "m", "test", "file", 3)]
ASKED += [("mine", "m", "test", "file", 4), ("mine", "q", "dev", "file", 3)]


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
    assert (test.title, test.queries, test.units) == ("mine", ("a b", "m"), (0, 0, 1, 2, 2))
    assert test.judged == ({1: 1}, {2: 3})
    assert test.documents == tuple(text for _, text in TEXTS)
    assert (dev.title, dev.queries, dev.judged) == ("mine dev", ("q",), ({2: 4},))
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


def test_passages_are_not_encoded_again_where_they_have_vectors(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, inputs: dict[str, Rows]
) -> None:
    own = run_stage(tmp_path / "a", model, [], retrieval=False, more=inputs)["evaluations"]
    vectors = [words(text) / np.linalg.norm(words(text)) for _, text in TEXTS]
    table = pa.table({"vector": vectors}).cast(pa.schema([PASSAGE_VECTORS.field("vector")]))
    inputs |= stored(tmp_path, passage_vectors=table)
    encoder.seen.clear()
    found = run_stage(tmp_path / "b", model, [], retrieval=False, more=inputs)["evaluations"]
    assert encoder.seen == ["a b", "m"]
    columns = ["task", "metric", "value", "data_digest"]
    assert found.select(columns) == own.select(columns)
    inputs |= stored(tmp_path, passage_vectors=table.slice(1))
    with fails("damaged", "1", "5"):
        run_stage(tmp_path / "c", model, [], retrieval=False, more=inputs)
