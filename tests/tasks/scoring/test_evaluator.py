"""Scorer `evaluator`: the cosine of a candidate and its sentence."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import embed, evaluator, stored_vectors
from tercet.tasks.stage import Resources, Work


def scored(tmp_path: Path, vectors: Mapping[str, list[float]], pairs: list[tuple[str, str]]) -> Any:
    """Scores and rejects of (anchor, candidate) pairs under these vectors."""
    ids = pa.array(seeding.text_ids(list(vectors)), pa.uint64())
    matrix = np.array(list(vectors.values()), dtype=np.float32)
    half = len(vectors) // 2
    table = embed.embeddings_table(ids, matrix)
    for i, part in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(part, tmp_path / f"e{i}.parquet")
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(len(pairs)), pa.uint64()),
            "sentence_id": pa.array(seeding.text_ids([a for a, _ in pairs]), pa.uint64()),
            "anchor": pa.nulls(len(pairs), pa.string()),
            "text": [b for _, b in pairs],
        }
    )
    pq.write_table(candidates, tmp_path / "c.parquet")
    inputs = {
        "candidates": rows_of({"candidates": [tmp_path / "c.parquet"]}),
        "embeddings": rows_of({"embeddings": [tmp_path / "e0.parquet", tmp_path / "e1.parquet"]}),
    }
    tables: dict[str, list[pa.Table]] = {}
    emit = lambda name, table: tables.setdefault(name, []).append(table)  # noqa: E731
    config = evaluator.EvaluatorConfig()
    evaluator.STAGE.run(Work(config, 0, inputs, {}, {}, Resources(), tmp_path, emit))
    scores = pa.concat_tables(tables["scores"])
    rejects = pa.concat_tables(tables["rejects"]).to_pylist() if "rejects" in tables else []
    return {row["candidate_id"]: row["value"] for row in scores.to_pylist()}, rejects


def test_cosines_by_hand(tmp_path: Path) -> None:
    vectors = {"x": [1.0, 0.0], "same": [3.0, 0.0], "across": [0.0, 2.0], "half": [1.0, 1.0]}
    scores, rejects = scored(
        tmp_path, vectors, [("x", "same"), ("x", "across"), ("half", "x"), ("x", "x")]
    )
    assert scores == pytest.approx({0: 1.0, 1: 0.0, 2: 2**-0.5, 3: 1.0}, abs=1e-7)
    assert rejects == []


def test_batches_and_parts_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"t{i}" for i in range(50)]
    vectors = {t: [float(np.cos(i)), float(np.sin(i))] for i, t in enumerate(texts)}
    pairs = [(texts[i], texts[(7 * i) % 50]) for i in range(50)]
    expected = {i: float(np.cos(i - (7 * i) % 50)) for i in range(50)}
    monkeypatch.setattr(stored_vectors, "_ROWS", 8)
    scores, rejects = scored(tmp_path, vectors, pairs)
    assert scores == pytest.approx(expected, abs=1e-6)
    assert rejects == []
    # What was laid out of other embeddings is not read.
    same, _ = scored(tmp_path, {text: [1.0, 0.0] for text in texts}, pairs)
    assert same == pytest.approx(dict.fromkeys(range(50), 1.0))


def test_a_row_without_a_number_is_a_reject(tmp_path: Path) -> None:
    vectors = {"x": [1.0, 0.0], "zero": [0.0, 0.0], "odd": [float("nan"), 1.0], "y": [1.0, 1.0]}
    scores, rejects = scored(
        tmp_path, vectors, [("x", "zero"), ("x", "odd"), ("x", "never seen"), ("x", "y")]
    )
    assert list(scores) == [3]
    assert [(row["row_id"], row["reason"], row["text"]) for row in rejects] == [
        (0, "nan_score", "zero"),
        (1, "nan_score", "odd"),
        (2, "no_embedding", "never seen"),
    ]
