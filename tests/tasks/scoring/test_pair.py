"""Scorer `pair`: the discriminator's probability for each candidate and its sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from awareness_corpus import emitted, stored
from failures import fails

from tercet.models import discriminators, seeding
from tercet.models.discriminators import PairModel, Platt
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import embed, pair

TEXTS = [f"Text {number}." for number in range(12)]
LEFT_OUT = "A text that nobody has encoded."


def scored(
    folder: Path, dimension: int = 6, of_model: int | None = None
) -> tuple[dict[int, float], list[dict[str, Any]], dict[int, float]]:
    """Scores by candidate, rejects, and the probabilities that the model gives."""
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(len(TEXTS), dimension)).astype(np.float32)
    vectors[11] = 0.0
    model = PairModel(generator.normal(size=(4, of_model or dimension)), 0.2, Platt(1.5, 0.1))
    directory = folder / "model"
    directory.mkdir()
    discriminators.write(directory, model)
    ids = pa.array(seeding.text_ids(TEXTS), pa.uint64())
    embeddings = embed.embeddings_table(ids, vectors)
    given = [(row, (row * 5 + 1) % 11) for row in range(10)]
    anchors = [TEXTS[a] for a, _ in given] + [TEXTS[0], TEXTS[1]]
    said = [TEXTS[b] for _, b in given] + [LEFT_OUT, TEXTS[11]]
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(12), pa.uint64()),
            "sentence_id": pa.array(seeding.text_ids(anchors), pa.uint64()),
            "anchor": pa.nulls(12, pa.string()),
            "text": said,
        }
    )
    inputs = {
        "candidates": rows_of({"candidates": stored(folder, "c", candidates)}),
        "embeddings": rows_of({"embeddings": stored(folder, "e", embeddings)}),
    }
    config, models = pair.PairConfig(model="judge"), {"discriminator": directory}
    tables = emitted(pair.STAGE, config, inputs, folder, models)
    scores = tables["scores"]
    assert set(scores["scorer"].to_pylist()) == {"pair"}
    assert set(scores["measure"].to_pylist()) == {"p_true"}
    first, second = (vectors[[one[side] for one in given]] for side in (0, 1))
    expected = dict(enumerate(model.probabilities(first, second).tolist()))
    rejects = tables["rejects"].to_pylist()
    return (
        dict(zip(*(scores[name].to_pylist() for name in ("candidate_id", "value")), strict=True)),
        rejects,
        expected,
    )


def test_each_candidate_has_the_models_probability_with_its_sentence_first(tmp_path: Path) -> None:
    scores, rejects, expected = scored(tmp_path)
    assert scores == pytest.approx(expected, abs=1e-6)
    assert all(0 < value < 1 for value in scores.values())
    assert {(row["row_id"], row["reason"], row["text"]) for row in rejects} == {
        (10, "no_embedding", LEFT_OUT),
        (11, "nan_score", TEXTS[11]),
    }


def test_vectors_of_another_evaluator_are_refused(tmp_path: Path) -> None:
    with fails("unfit_model", "4", "6"):
        scored(tmp_path, of_model=4)
