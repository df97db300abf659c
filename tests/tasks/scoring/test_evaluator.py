"""Scorer `evaluator`: the cosine of a candidate and its sentence."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from awareness_corpus import emitted, stored

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import embed, evaluator


def scored(tmp_path: Path, vectors: Mapping[str, list[float]], pairs: list[tuple[str, str]]) -> Any:
    """Scores and rejects of (anchor, candidate) pairs under these vectors."""
    ids = pa.array(seeding.text_ids(list(vectors)), pa.uint64())
    matrix = np.array(list(vectors.values()), dtype=np.float32)
    half = len(vectors) // 2
    table = embed.embeddings_table(ids, matrix)
    parts = (table.slice(0, half), table.slice(half))
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(len(pairs)), pa.uint64()),
            "sentence_id": pa.array(seeding.text_ids([a for a, _ in pairs]), pa.uint64()),
            "anchor": pa.nulls(len(pairs), pa.string()),
            "text": [b for _, b in pairs],
        }
    )
    inputs = {
        "candidates": rows_of({"candidates": stored(tmp_path, "c", candidates)}),
        "embeddings": rows_of({"embeddings": stored(tmp_path, "e", *parts)}),
    }
    tables = emitted(evaluator.STAGE, evaluator.EvaluatorConfig(), inputs, tmp_path)
    scores = {row["candidate_id"]: row["value"] for row in tables["scores"].to_pylist()}
    return scores, tables["rejects"].to_pylist()


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
    monkeypatch.setattr(evaluator, "_ROWS", 8)
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
