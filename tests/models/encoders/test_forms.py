"""The forms of an encoder: what a recipe may say, one becomes another, and whitening."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from transformers import AutoModel, AutoTokenizer

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.forms import is_whitening, pooling_of, whiten, whitening
from tercet.models.encoders.settings import FormSettings, pooling_name, read_pooling

FORMS: list[tuple[Any, str | None]] = [
    ("mean", None),
    (("cls", "mean"), None),
    ("first_last_mean", None),
    ("mask", None),
    ("mask", "{mask}: {sentence}"),
]


@pytest.mark.parametrize("before", FORMS)
@pytest.mark.parametrize("after", FORMS)
def test_a_saved_form_can_be_used_as_any_other(
    tmp_path: Path,
    tiny_backbone: Path,
    tiny_texts: list[str],
    before: tuple[Any, str | None],
    after: tuple[Any, str | None],
) -> None:
    texts = tiny_texts[:6]
    model = load_encoder(tiny_backbone, before[0], prompt=before[1], max_length=30)
    path = save_encoder(model, tmp_path / "saved")
    other = load_encoder(path, after[0], prompt=after[1])
    assert other.max_seq_length == 30
    # Without a prompt of its own a template stays as it was saved.
    prompt = after[1] or (before[1] if after[0] == before[0] else None)
    expected = load_encoder(tiny_backbone, after[0], prompt=prompt)
    np.testing.assert_array_equal(encode(other, texts), encode(expected, texts))


def test_the_first_and_the_last_layer_are_averaged(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    texts = tiny_texts[:6]
    network = AutoModel.from_pretrained(tiny_backbone).eval()
    given = AutoTokenizer.from_pretrained(tiny_backbone)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = network(**given, output_hidden_states=True).hidden_states
    mask = given["attention_mask"].unsqueeze(-1)
    expected = ((states[1] + states[-1]) / 2 * mask).sum(1) / mask.sum(1)
    model = load_encoder(tiny_backbone, "first_last_mean")
    np.testing.assert_allclose(encode(model, texts, normalise=False), expected, atol=1e-6)
    # It is a plain encoder, whose weights of layers are not trained.
    path = save_encoder(model, tmp_path / "saved")
    plain = SentenceTransformer(str(path), device="cpu").encode(texts)
    np.testing.assert_allclose(plain, expected, atol=1e-6)
    again = load_encoder(path)
    assert pooling_of(again) == "first_last_mean"
    assert not [
        n
        for n, p in again.named_parameters()
        if "layer" in n and not n.startswith("0.") and p.requires_grad
    ]


def test_several_poolings_are_concatenated(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    both = encode(load_encoder(tiny_backbone, ("max", "cls")), tiny_texts[:5], normalise=False)
    parts = [
        encode(load_encoder(tiny_backbone, mode), tiny_texts[:5], normalise=False)
        for mode in ("max", "cls")
    ]
    np.testing.assert_allclose(both, np.hstack(parts), atol=1e-6)


def test_layers_that_fit_other_vectors_are_refused(tmp_path: Path, tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.append(Dense(32, 8))
    path = save_encoder(model, tmp_path / "saved")
    assert encode(load_encoder(path, "mask"), ["red"]).shape == (1, 8)
    with pytest.raises(ValueError, match="pooling"):
        load_encoder(path, ("mean", "cls"))


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
    ("vectors", "dimensions", "name"),
    [
        (some(), 13, "12"),
        (some(8), 8, "8 texts"),
        (some(9), None, "9 texts"),
        (0 * some(), None, "same vector"),
    ],
)
def test_too_much_asked(vectors: np.ndarray, dimensions: int | None, name: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=name):
        whitening(vectors, dimensions, 0.5)


@pytest.mark.parametrize("normal", [False, True])
def test_a_whitened_encoder_is_plain(
    normal: bool, tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
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
    with pytest.raises(ValueError, match=f"{own}.*{other}"):
        load_encoder(directory, other)
    again = encode(load_encoder(directory, own), tiny_texts)
    assert np.allclose(again, encode(model, tiny_texts), atol=1e-6)


def test_another_dense_layer_is_no_whitening(tiny_backbone: Path) -> None:
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


@pytest.mark.parametrize("pooling", ["cls", ("cls", "mean"), "mask", "first_decoder"])
def test_a_pooling_and_its_name(pooling: Any) -> None:
    assert read_pooling(pooling_name(pooling)) == pooling
    assert FormSettings(pooling=pooling).pooling == pooling


@pytest.mark.parametrize("name", ["median", "mask+cls", ""])
def test_a_name_that_is_not_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="first_decoder"):
        read_pooling(name)


@pytest.mark.parametrize(
    ("pooling", "prompt"),
    [
        (None, "in short"),
        ("cls", "{sentence} {mask}"),
        ("token_cnn", "means {mask}"),
        ("mask", "{sentence} in short"),
        ("mask", "{sentence} {sentence} {mask}"),
        ("first_decoder", "{sentence} in short"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_at_its_key(pooling: Any, prompt: str) -> None:
    with pytest.raises(ValidationError) as raised:
        FormSettings(pooling=pooling, prompt=prompt)
    assert [error["loc"] for error in raised.value.errors()] == [("prompt",)]
