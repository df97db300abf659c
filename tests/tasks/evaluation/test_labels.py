"""Labels of a corpus: what the stage takes of them, and the two ways of measuring by them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from stages import emitted, stored

from tercet.models import seeding
from tercet.tasks.corpus.ingest import DOCUMENTS, SENTENCES
from tercet.tasks.evaluation import labels
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.evaluate import read_label_tasks

SPLITS = ["train"] * 6 + ["dev"] + ["test"] * 3


def made(tmp_path: Path, given: list[str | None]) -> dict[str, pa.Table]:
    """The stage's tables for documents of one text and these labels, six of ten of them train."""
    n = len(given)
    texts = [f"text number {i} says what it says" for i in range(n)]
    splits = [SPLITS[i % 10] for i in range(n)]
    names, zeros = (["c"] * n, ["s"] * n), [0] * n
    documents = [range(n), names[1], texts, names[0], splits, pa.array(given, pa.string())]
    ids = seeding.text_ids(texts)
    sentences = [ids, texts, *names, range(n), zeros, zeros, [7] * n, splits]
    inputs = stored(
        tmp_path,
        documents=pa.table(documents, schema=DOCUMENTS),
        sentences=pa.table(sentences, schema=SENTENCES),
    )
    config = labels.LabelsConfig(columns={"c": "stars"})
    return emitted(labels.STAGE, config, inputs, tmp_path)


def test_documents_with_a_label_and_their_text(tmp_path: Path) -> None:
    out = made(tmp_path, [None if i % 5 == 4 else str(1 + i % 2) for i in range(200)])
    rows = out["labels"].to_pylist()
    assert len(rows) == 160
    assert {row["split"] for row in rows} == {"train", "dev", "test"}
    assert all(row["text"].startswith(f"text number {row['doc_id']} ") for row in rows)
    assert all(row["label"] == str(1 + row["doc_id"] % 2) for row in rows)


@pytest.mark.parametrize(
    ("given", "rejects", "labelled"),
    [
        # No text of a split has one.
        (
            [None if SPLITS[i % 10] == "test" else str(i % 2) for i in range(200)],
            [("no_texts", "test")],
            {"0", "1"},
        ),
        (
            ["rare" if i % 50 == 0 else str(i % 2) for i in range(200)],
            [("rare_label", "rare")],
            {"0", "1"},
        ),
        (["same"] * 200, [("one_label", None)], set()),
        # Of 60 texts with the label too few are among the 2,000 that are drawn of 24,000.
        (
            ["seldom" if i % 400 == 1 else str(i % 2) for i in range(40_000)],
            [("rare_label", "seldom")],
            {"0", "1"},
        ),
        (
            ["seldom" if i % 400 == 1 else "usual" for i in range(40_000)],
            [("rare_label", "seldom"), ("one_label", None)],
            set(),
        ),
    ],
    ids=["no texts", "rare", "one", "rare among the drawn", "one left of the drawn"],
)
def test_labels_that_cannot_be_measured_are_told(
    tmp_path: Path, given: list[str | None], rejects: list[Any], labelled: set[str]
) -> None:
    out = made(tmp_path, given)
    assert [(r["reason"], r["text"]) for r in out["rejects"].to_pylist()] == rejects
    assert set(out["labels"]["label"].to_pylist()) == labelled


def test_a_column_of_many_values_is_refused(tmp_path: Path) -> None:
    with fails("bad_value", "'stars'", "'c'", "40"):
        made(tmp_path, [str(i % 40) for i in range(800)])


def test_either_way_tells_separate_labels_apart_and_none_mixed_ones(tmp_path: Path) -> None:
    table = made(tmp_path, ["red" if i % 2 else "blue" for i in range(200)])["labels"]
    (task,) = read_label_tasks(table, ("test", "dev"))
    texts = task.texts()
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(len(texts), 8)).astype(np.float32)
    apart = noise.copy()
    apart[:, 0] += [9.0 if int(text.split()[2]) % 2 else -9.0 for text in texts]
    rows = {(text, None): row for row, text in enumerate(texts)}

    def accuracies(vectors: np.ndarray) -> dict[str, float]:
        scores = task.scores(Encoded(vectors, rows))
        return {one.data.task: float(one.parts[0].values.mean()) for one in scores}

    found = accuracies(apart)
    assert set(found) == {
        "c.stars probe", "c.stars nearest", "c.stars probe dev", "c.stars nearest dev"
    }  # fmt: skip
    assert min(found.values()) == 1.0
    assert max(accuracies(noise).values()) < 0.9
