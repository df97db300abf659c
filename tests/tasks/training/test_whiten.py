"""Stage `whiten`: what it is fitted on, what it leaves, and its errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from train_stage import inputs

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.stage import BadInput, Resources, Work
from tercet.tasks.training import whiten
from tercet.tasks.training.whiten import WHITENING, WhitenConfig

__all__ = ["inputs"]


def whitened(
    inputs: dict[str, Rows], encoder: Path, scratch: Path, **settings: Any
) -> tuple[Path, list[dict[str, Any]]]:
    """The directory of the whitened encoder, and the rows of `whitening`."""
    found: dict[str, pa.Table] = {}
    scratch.mkdir()
    config = WhitenConfig(**settings)
    work = Work(
        config, 3, inputs, {"encoder": encoder}, {}, Resources(), scratch, found.__setitem__
    )
    path = whiten.run(work)
    assert found["whitening"].schema == WHITENING
    assert set(found["whitening"]["seed"].to_pylist()) == {config.model_seed or 3}
    return path, found["whitening"].to_pylist()


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


def test_it_is_fitted_on_the_corpora_and_on_so_many_texts(
    inputs: dict[str, Rows],
    tmp_path: Path,
    tiny_backbone: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whiten, "_TEXTS", 9)
    found = {
        name: whitened(inputs, tiny_backbone, tmp_path / name, dimensions=4, **settings)[1]
        for name, settings in {
            "docs": {"corpora": ("docs",)},
            "few": {},
            "again": {},
        }.items()
    }
    assert {name: rows[0]["texts"] for name, rows in found.items()} == {
        "docs": 9,
        "few": 9,
        "again": 9,
    }
    assert found["few"] == found["again"]


def test_what_the_guard_has_found_is_left_out(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    removed = pa.table({"text": tiny_texts[:6], "removed": [True] * 5 + [False]})
    pq.write_table(removed, tmp_path / "found.parquet")
    guarded = rows_of({"contamination": [tmp_path / "found.parquet"]})
    _, rows = whitened(
        {**inputs, "guarded_sentences": guarded}, tiny_backbone, tmp_path / "work", dimensions=4
    )
    assert rows[0]["texts"] == 25


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dimensions": 33, "corpora": ("docs",)}, "whiten.dimensions is 33"),
        ({"dimensions": 20, "corpora": ("docs",)}, "whiten.dimensions is 20"),
        ({"dimensions": None, "corpora": ("docs",)}, "whiten.dimensions is 32"),
    ],
)
def test_too_much_asked_is_refused(
    inputs: dict[str, Rows],
    tmp_path: Path,
    tiny_backbone: Path,
    settings: dict[str, Any],
    said: str,
) -> None:
    with pytest.raises(BadInput, match=said):
        whitened(inputs, tiny_backbone, tmp_path / "work", **settings)
