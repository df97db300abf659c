"""Labels of a corpus: what the stage takes of them, and the two ways of measuring by them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.ingest import DOCUMENTS, SENTENCES
from tercet.tasks.evaluation import labels
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.evaluate import read_label_tasks
from tercet.tasks.stage import Resources, Work

SPLITS = ["train"] * 6 + ["dev"] + ["test"] * 3


def emitted(tmp_path: Path, given: list[str | None]) -> dict[str, pa.Table]:
    """The stage's tables for documents of one text and these labels, six of ten of them train."""
    n = len(given)
    texts = [f"text number {i} says what it says" for i in range(n)]
    splits = [SPLITS[i % 10] for i in range(n)]
    documents = pa.table(
        [range(n), ["s"] * n, texts, ["c"] * n, splits, pa.array(given, pa.string())],
        schema=DOCUMENTS,
    )
    ids = seeding.text_ids(texts)
    zeros = [0] * n
    sentences = pa.table(
        [ids, texts, ["c"] * n, ["s"] * n, range(n), zeros, zeros, [7] * n, splits],
        schema=SENTENCES,
    )
    files = {}
    for name, table in (("documents", documents), ("sentences", sentences)):
        files[name] = tmp_path / f"{name}.parquet"
        pq.write_table(table, files[name])
    made: dict[str, list[pa.Table]] = {"labels": [], "rejects": []}
    labels.run(
        Work(
            config=labels.LabelsConfig(columns={"c": "stars"}),
            seed=1,
            inputs={name: rows_of({name: [file]}) for name, file in files.items()},
            models={},
            spec={},
            resources=Resources(),
            scratch=tmp_path,
            emit=lambda name, table: made[name].append(table),
        )
    )
    return {name: pa.concat_tables(tables) for name, tables in made.items() if tables}


def test_a_split_in_which_no_text_has_a_label_is_told(tmp_path: Path) -> None:
    given = [None if SPLITS[i % 10] == "test" else str(i % 2) for i in range(200)]
    (row,) = emitted(tmp_path, given)["rejects"].to_pylist()
    assert (row["reason"], row["text"]) == ("no_texts", "test")
    assert row["detail"] == (
        "column 'stars' of corpus 'c' has no value in split test: it was not measured there"
    )


def test_documents_with_a_label_and_their_text(tmp_path: Path) -> None:
    out = emitted(tmp_path, [None if i % 5 == 4 else str(1 + i % 2) for i in range(200)])
    assert out["labels"].schema == labels.LABELS
    rows = out["labels"].to_pylist()
    assert len(rows) == 160
    assert {row["split"] for row in rows} == {"train", "dev", "test"}
    assert all(row["text"].startswith(f"text number {row['doc_id']} ") for row in rows)
    assert all(row["label"] == str(1 + row["doc_id"] % 2) for row in rows)


def test_a_rare_label_and_a_column_of_one_label_are_told(tmp_path: Path) -> None:
    out = emitted(tmp_path, ["rare" if i % 50 == 0 else str(i % 2) for i in range(200)])
    assert out["rejects"]["reason"].to_pylist() == ["rare_label"]
    assert "rare" not in out["labels"]["label"].to_pylist()
    out = emitted(tmp_path, ["same"] * 200)
    assert out["rejects"]["reason"].to_pylist() == ["one_label"]
    assert "labels" not in out


def test_a_label_of_which_too_few_texts_are_drawn_is_rare_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "TEXTS", {"train": 60, "dev": 10, "test": 20})
    given: list[str | None] = ["seldom" if i % 20 == 1 else str(i % 2) for i in range(600)]
    given[::150] = ["never"] * 4
    out = emitted(tmp_path, given)
    told = out["rejects"].to_pylist()
    assert [(row["reason"], row["text"]) for row in told] == [
        ("rare_label", "never"),
        ("rare_label", "seldom"),
    ]
    assert "4 of 360 training texts have this label" in told[0]["detail"]
    assert "of 60 training texts have this label, fewer than 10" in told[1]["detail"]
    train = [row for row in out["labels"].to_pylist() if row["split"] == "train"]
    assert len(train) == 60
    assert {row["label"] for row in train} == {"0", "1"}


def test_one_label_left_of_the_drawn_texts_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "TEXTS", {"train": 40, "dev": 10, "test": 20})
    out = emitted(tmp_path, ["seldom" if i % 20 == 1 else "usual" for i in range(600)])
    assert out["rejects"]["reason"].to_pylist() == ["rare_label", "one_label"]
    assert "labels" not in out


def test_a_column_of_many_values_is_refused(tmp_path: Path) -> None:
    with fails("bad_value", "'stars'", "'c'", "40"):
        emitted(tmp_path, [str(i % 40) for i in range(800)])


def test_either_way_tells_separate_labels_apart_and_none_mixed_ones(tmp_path: Path) -> None:
    table = emitted(tmp_path, ["red" if i % 2 else "blue" for i in range(200)])["labels"]
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
