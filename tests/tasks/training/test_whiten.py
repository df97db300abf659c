"""Stage `whiten`: what it is fitted on, what it leaves, and its errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from stages import ran, stored
from train_stage import inputs

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows
from tercet.tasks.training import whiten
from tercet.tasks.training.whiten import WhitenConfig

__all__ = ["inputs"]


def whitened(
    inputs: dict[str, Rows], encoder: Path, scratch: Path, **settings: Any
) -> tuple[Path, list[dict[str, Any]]]:
    """The directory of the whitened encoder, and the rows of `whitening`."""
    config = WhitenConfig(**settings)
    path, tables = ran(whiten.STAGE, config, inputs, scratch, {"encoder": encoder})
    assert set(tables["whitening"]["seed"].to_pylist()) == {3}
    return path, tables["whitening"].to_pylist()


def test_the_train_sentences_are_whitened(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    path, rows = whitened(
        inputs, tiny_backbone, tmp_path / "work", dimensions=20, power=1.0, pooling="cls"
    )
    model = load_encoder(path)
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Dense"]
    assert model[1].pooling_mode == "cls"
    # 30 of the 40 sentences are in train.
    vectors = encode(model, tiny_texts[:30], normalise=False)
    assert np.allclose(np.cov(vectors.T), np.eye(20), atol=1e-2)
    assert np.allclose(vectors.mean(axis=0), 0, atol=1e-4)
    assert [row["direction"] for row in rows] == list(range(1, 33))
    assert {row["texts"] for row in rows} == {30}
    assert [row["factor"] is None for row in rows] == [False] * 20 + [True] * 12
    assert rows[3]["factor"] == pytest.approx(rows[3]["variance"] ** -0.5)


def test_it_is_fitted_on_the_corpora_without_what_the_guard_has_found(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    removed = pa.table({"text": tiny_texts[:6], "removed": [True] * 5 + [False]})
    guarded = {"guarded_sentences": stored(tmp_path, contamination=removed)["contamination"]}
    for name, corpora, given, count in (
        ("docs", ("docs",), {}, 15),
        ("guarded", (), guarded, 25),
    ):
        settings = {"dimensions": 4, "corpora": corpora}
        _, rows = whitened({**inputs, **given}, tiny_backbone, tmp_path / name, **settings)
        assert rows[0]["texts"] == count


@pytest.mark.parametrize(("dimensions", "named"), [(20, 20), (None, 32)])
def test_more_dimensions_than_there_are_texts(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, dimensions: Any, named: int
) -> None:
    settings = {"dimensions": dimensions, "corpora": ("docs",)}
    with fails("unfit_model", "whiten.dimensions", named):
        whitened(inputs, tiny_backbone, tmp_path / "work", **settings)
