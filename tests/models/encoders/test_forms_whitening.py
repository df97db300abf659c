"""Whitening: what it makes of a covariance, and that an encoder with it is a plain encoder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.forms import is_whitening, whiten, whitening


def some(rows: int = 400, width: int = 12) -> np.ndarray:  # type: ignore[type-arg]
    """Vectors off the origin, whose directions vary by a factor of 100."""
    draw = np.random.default_rng(3)
    turned = np.linalg.qr(draw.normal(size=(width, width)))[0]
    spread = np.geomspace(1.0, 0.01, width)
    return ((draw.normal(size=(rows, width)) * spread) @ turned + 5.0).astype(np.float32)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dimensions", [None, 5])
def test_variances_are_raised_to_what_the_power_leaves(
    dimensions: int | None, power: float
) -> None:
    vectors = some().astype(np.float64)
    fitted = whitening(some(), dimensions, power)
    kept = fitted.dimensions
    made = ((vectors - fitted.mean) @ fitted.directions * fitted.factors)[:, :kept]
    largest = np.sort(np.linalg.eigvalsh(np.cov(vectors.T)))[::-1][:kept]
    assert np.allclose(np.cov(made.T), np.diag(largest ** (1 - power)), atol=1e-8)
    assert np.allclose(made.mean(axis=0), 0, atol=1e-6)
    if power == 1.0:
        assert np.allclose(np.cov(made.T), np.eye(kept), atol=1e-6)


def test_a_direction_without_variance_stays_small() -> None:
    flat = some()
    flat[:, 0] = flat[:, 1]
    fitted = whitening(flat, None, 1.0)
    assert np.isfinite(fitted.factors).all()
    assert fitted.variances.min() >= 0


@pytest.mark.parametrize(
    ("rows", "dimensions", "said"),
    [
        (400, 13, "is 13, but the encoder's vectors have only 12 numbers: lower it to 12"),
        (8, 8, "is 8, but only 8 texts are there to fit it on"),
        (9, None, "is 12, but only 9 texts are there to fit it on"),
    ],
)
def test_too_much_asked_is_one_sentence(rows: int, dimensions: int | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        whitening(some(rows), dimensions, 0.5)
    with pytest.raises(ValueError, match="all texts the same vector"):
        whitening(np.ones((400, 12), dtype=np.float32), None, 0.5)


@pytest.mark.parametrize("normal", [False, True])
def test_a_whitened_encoder_is_plain(
    normal: bool, tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    from sentence_transformers.base.modules import Normalize

    model = load_encoder(tiny_backbone, "mean")
    if normal:
        model.append(Normalize())
    before = encode(model, tiny_texts, normalise=False)
    fitted = whitening(before, 20, 0.5)
    whiten(model, fitted)
    wanted = ((before - fitted.mean) @ fitted.directions * fitted.factors)[:, :20]
    if normal:
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    after = encode(model, tiny_texts, normalise=False)
    assert np.allclose(after, wanted, atol=1e-5)
    directory = save_encoder(model, tmp_path / "saved")
    plain = SentenceTransformer(str(directory), device="cpu")
    assert plain.get_embedding_dimension() == 20
    assert np.abs(plain.encode(tiny_texts) - after).max() < 1e-6
    assert np.abs(encode(load_encoder(directory), tiny_texts, normalise=False) - after).max() < 1e-6


@pytest.mark.parametrize(("own", "other"), [("mean", "cls"), ("first_last_mean", "mean")])
def test_another_pooling_is_refused(
    own: Any, other: Any, tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone, own)
    whiten(model, whitening(encode(model, tiny_texts, normalise=False), 20, 0.3))
    directory = save_encoder(model, tmp_path / "saved")
    with pytest.raises(ValueError, match=f"is whitened.*pooling: {own}, so pooling: {other}"):
        load_encoder(directory, other)
    again = encode(load_encoder(directory, own), tiny_texts)
    assert np.allclose(again, encode(model, tiny_texts), atol=1e-6)


def test_another_dense_layer_is_no_whitening(tiny_backbone: Path) -> None:
    from sentence_transformers.base.modules import Dense

    torch.manual_seed(0)
    width = load_encoder(tiny_backbone).get_embedding_dimension()
    assert not is_whitening(Dense(width, 20, activation_function=torch.nn.Identity()))


@pytest.mark.slow
@pytest.mark.usefixtures("onnx")
def test_as_onnx_it_gives_the_same_vectors(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    from tercet.models.encoders.onnx_files import OnnxEncoder, write_onnx

    model = load_encoder(tiny_backbone, "mean")
    whiten(model, whitening(encode(model, tiny_texts, normalise=False), 20, 0.5))
    write_onnx(model, tmp_path / "model.onnx")
    written = OnnxEncoder(tmp_path / "model.onnx", model, threads=1)
    found = encode(written, tiny_texts)  # type: ignore[arg-type]
    assert found.shape == (len(tiny_texts), 20)
    assert np.abs(found - encode(model, tiny_texts)).max() < 1e-5
