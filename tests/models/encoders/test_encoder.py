"""Loading encoders and encoding many texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    StaticEmbedding,
    Transformer,
)
from spoilt_models import spoilt
from tokenizers import Tokenizer

from tercet.models.encoders import encoder, onnx_files
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.own_modules import save_encoder
from tercet.models.encoders.pooling import TOKEN_POOLINGS, TokenPooling
from tercet.models.encoders.whitening import whiten, whitening


def test_a_saved_encoder_keeps_its_own_pooling_unless_told(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    load_encoder(tiny_backbone, "cls").save_pretrained(str(tmp_path / "saved"))
    assert load_encoder(tmp_path / "saved")[1].pooling_mode == "cls"
    assert load_encoder(tmp_path / "saved", "mean")[1].pooling_mode == "mean"


def test_every_mode_of_the_library_can_be_asked_for() -> None:
    assert set(TOKEN_POOLINGS) == set(Pooling.POOLING_MODES)


@pytest.mark.parametrize("mode", TOKEN_POOLINGS)
def test_a_pooling_gives_what_the_library_gives(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, mode: TokenPooling
) -> None:
    body = Transformer(str(tiny_backbone))
    library = SentenceTransformer(
        modules=[body, Pooling(body.get_embedding_dimension(), mode)], device="cpu"
    ).eval()
    expected = library.encode(tiny_texts, show_progress_bar=False)
    other = load_encoder(tiny_backbone, "cls" if mode == "mean" else "mean")
    other.save_pretrained(str(tmp_path / "saved"))
    for path in (tiny_backbone, tmp_path / "saved"):
        found = encode(load_encoder(path, mode), tiny_texts, batch_size=4, normalise=False)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_encode_equals_the_library_in_the_order_of_the_texts(
    tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    seen: list[int] = []
    ours = encode(model, tiny_texts, batch_size=4, progress=seen.append)
    theirs = model.encode(tiny_texts, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1.0, atol=1e-6)
    assert ours.dtype == np.float32
    assert seen == sorted(seen)
    assert seen[-1] == len(tiny_texts)
    assert len(seen) > 5


def test_static_embeddings_are_encoded_too(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_backbone / "tokenizer.json"))
    weights = np.random.default_rng(3).normal(size=(tokenizer.get_vocab_size(), 8))
    made = SentenceTransformer(modules=[StaticEmbedding(tokenizer, weights.astype(np.float32))])
    made.save(str(tmp_path / "static"))
    model = load_encoder(tmp_path / "static", max_length=64)
    found = encode(model, tiny_texts, batch_size=7)
    expected = made.encode(tiny_texts, normalize_embeddings=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # An ONNX file has no place for it, nor for a template.
    for other in (model, load_encoder(tiny_backbone, "mask")):
        with pytest.raises(ValueError, match=r"ONNX|transformer"):
            onnx_files.write_onnx(other, tmp_path / "other.onnx")


def test_encode_switches_dropout_off_and_on_again(
    tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone).train()
    np.testing.assert_array_equal(encode(model, tiny_texts[:8]), encode(model, tiny_texts[:8]))
    assert model.training


@pytest.mark.usefixtures("bf16_anywhere")
def test_bf16_is_near(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    model = load_encoder(tiny_backbone)
    exact, quick = (encode(model, tiny_texts[:50], precision=p) for p in ("fp32", "bf16"))
    assert (exact * quick).sum(axis=1).min() > 0.99
    assert not np.array_equal(exact, quick)


def test_without_bf16_in_the_processor_texts_are_encoded_in_fp32(
    tiny_backbone: Path, tiny_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.models.precision.cpu_has_bf16", lambda: False)
    model = load_encoder(tiny_backbone)
    exact, asked = (encode(model, tiny_texts[:8], precision=p) for p in ("fp32", "bf16"))
    np.testing.assert_array_equal(exact, asked)


def test_long_texts_are_cut_at_max_length(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, max_length=8)
    cut, same = encode(model, ["red " * 60 + "blue", "red " * 6])
    np.testing.assert_allclose(cut, same, atol=1e-6)
    assert load_encoder(tiny_backbone, max_length=10_000).max_seq_length == 64


def test_a_default_prompt_reaches_the_model_and_stays_out_of_its_pooling(
    tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.prompts, model.default_prompt_name = {"query": "the old file "}, "query"
    said = encode(model, tiny_texts[:9], batch_size=2)
    bare = encode(load_encoder(tiny_backbone), [f"the old file {t}" for t in tiny_texts[:9]])
    np.testing.assert_allclose(said, bare, atol=1e-6)
    model[1].include_prompt = False
    without = encode(model, tiny_texts[:9], batch_size=2)
    expected = model.encode(tiny_texts[:9], normalize_embeddings=True)
    np.testing.assert_allclose(without, expected, atol=1e-6)
    assert not np.allclose(without, said, atol=1e-3)


def test_more_texts_than_a_block(
    tiny_backbone: Path, tiny_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(tiny_backbone)
    whole = encode(model, tiny_texts)
    monkeypatch.setattr("tercet.models.encoders.encoder._BLOCK", 23)
    np.testing.assert_allclose(encode(model, tiny_texts), whole, atol=1e-6)


def test_padding_on_the_left_is_cut_there(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone)
    model.tokenizer.padding_side = "left"
    features = model.preprocess(["red", "the old file is open"])
    cut = encoder._rows(features, np.array([0]))
    assert cut["input_ids"].tolist() == model.preprocess(["red"])["input_ids"].tolist()


def test_no_texts(tiny_backbone: Path) -> None:
    assert encode(load_encoder(tiny_backbone), []).shape == (0, 32)


@pytest.mark.parametrize(
    ("fault", "said"), [("damaged", "header"), ("voiceless", "tokenizer"), ("", "encoder")]
)
def test_a_model_that_cannot_be_loaded(
    tiny_backbone: Path, tmp_path: Path, fault: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        load_encoder(spoilt(tiny_backbone, fault, tmp_path) if fault else tmp_path)
    assert "\n" not in str(raised.value)


def cut_encoder(backbone: Path, folder: Path, length: object, pooling: Any = "mean") -> Path:
    """An encoder whose config cuts its vectors; one of the library's has length one before that."""
    model = load_encoder(backbone, pooling, cnn_seed=1)
    if pooling != "token_cnn":
        model.append(Normalize())
    save_encoder(model, folder)
    config = folder / "config_sentence_transformers.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"truncate_dim": length}))
    return folder


@pytest.mark.parametrize("pooling", ["mean", "cls", "token_cnn"])
@pytest.mark.parametrize("length", [1, 7, 500])
def test_vectors_are_as_long_as_the_config_says(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, length: int, pooling: Any
) -> None:
    whole = encode(load_encoder(tiny_backbone, pooling, cnn_seed=1), tiny_texts)
    model = load_encoder(cut_encoder(tiny_backbone, tmp_path / "cut", length, pooling))
    vectors, width = encode(model, tiny_texts), min(length, whole.shape[1])
    assert vectors.shape == (len(tiny_texts), width)
    assert encoder.dimension(model) == width
    parts = whole[:, :length] / np.linalg.norm(whole[:, :length], axis=1, keepdims=True)
    assert np.allclose(vectors, parts, atol=1e-5)
    # A training's losses see the same, and so does whoever loads what is saved.
    assert model(model.preprocess(tiny_texts[:2]))["sentence_embedding"].shape == (2, width)
    save_encoder(model, tmp_path / "again")
    assert np.allclose(encode(load_encoder(tmp_path / "again"), tiny_texts), vectors, atol=1e-6)


def test_a_whitening_of_cut_vectors_is_one_of_a_plain_encoder(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    model = load_encoder(cut_encoder(tiny_backbone, tmp_path / "cut", 7))
    texts = [f"{one} {other}" for one in tiny_texts for other in tiny_texts][:200]
    vectors = encode(model, texts, normalise=False)
    fitted = whitening(vectors, 5, 0.5)
    whiten(model, fitted)
    wanted = ((vectors - fitted.mean) @ fitted.directions * fitted.factors)[:, :5]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(encode(model, texts), wanted, atol=1e-4)
    save_encoder(model, tmp_path / "white")
    assert np.allclose(encode(load_encoder(tmp_path / "white"), texts), wanted, atol=1e-4)
    plain = SentenceTransformer(str(tmp_path / "white"), device="cpu")
    assert np.allclose(plain.encode(texts), wanted, atol=1e-4)


@pytest.mark.parametrize("length", [0, 2.5, "7", True])
def test_a_length_that_is_none_is_refused(
    tiny_backbone: Path, tmp_path: Path, length: object
) -> None:
    with pytest.raises(ValueError, match="truncate_dim"):
        load_encoder(cut_encoder(tiny_backbone, tmp_path / "cut", length))
