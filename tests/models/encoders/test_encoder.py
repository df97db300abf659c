"""Loading encoders and encoding many texts."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from spoilt_models import spoilt
from tokenizers import Tokenizer
from transformers import (
    AutoTokenizer,
    CanineConfig,
    CanineModel,
    CanineTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    MPNetConfig,
    MPNetModel,
)

from tercet.models.encoders import encoder, onnx_files
from tercet.models.encoders.encoder import dimension, encode, load_encoder, longest, save_encoder
from tercet.models.encoders.forms import whiten, whitening
from tercet.models.encoders.settings import TOKEN_POOLINGS, TokenPooling
from tercet.models.losses.word_layer import layer_of


def test_a_saved_encoder_keeps_its_own_pooling_unless_told(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    load_encoder(tiny_backbone, "cls").save_pretrained(str(tmp_path / "saved"))
    assert load_encoder(tmp_path / "saved")[1].pooling_mode == "cls"
    assert load_encoder(tmp_path / "saved", "mean")[1].pooling_mode == "mean"


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
    with pytest.raises(ValueError, match="transformer"):
        onnx_files.write_onnx(model, tmp_path / "static.onnx")


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
    monkeypatch.setattr("tercet.models.machine.cpu_has_bf16", lambda: False)
    model = load_encoder(tiny_backbone)
    exact, asked = (encode(model, tiny_texts[:8], precision=p) for p in ("fp32", "bf16"))
    np.testing.assert_array_equal(exact, asked)


def test_long_texts_are_cut_at_max_length(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, max_length=8)
    cut, same = encode(model, ["red " * 60 + "blue", "red " * 6])
    np.testing.assert_allclose(cut, same, atol=1e-6)
    assert load_encoder(tiny_backbone, max_length=10_000).max_seq_length == 64


@pytest.mark.parametrize("pooled", [True, False])
def test_a_default_prompt_reaches_the_model(
    tiny_backbone: Path, tiny_texts: list[str], pooled: bool
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.prompts, model.default_prompt_name = {"query": "the old file "}, "query"
    model[1].include_prompt = pooled
    expected = model.encode(tiny_texts[:9], normalize_embeddings=True)
    np.testing.assert_allclose(encode(model, tiny_texts[:9], 2), expected, atol=1e-6)


def test_more_texts_than_a_block(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    model = load_encoder(tiny_backbone)
    places = np.arange(4_500) % len(tiny_texts)
    vectors = encode(model, [tiny_texts[place] for place in places])
    np.testing.assert_allclose(vectors, encode(model, tiny_texts)[places], atol=1e-6)


def test_padding_on_the_left_is_cut_there(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone)
    # Too long to share a batch.
    texts = ["red", "the old file " * 17]
    expected = encode(model, texts)
    model.tokenizer.padding_side = "left"
    np.testing.assert_allclose(encode(model, texts, batch_size=1), expected, atol=1e-6)


def test_an_encoder_with_a_template_is_not_written_as_onnx(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="ONNX"):
        onnx_files.write_onnx(load_encoder(tiny_backbone, "mask"), tmp_path / "mask.onnx")


def test_no_texts(tiny_backbone: Path) -> None:
    assert encode(load_encoder(tiny_backbone), []).shape == (0, 32)


def cut_encoder(backbone: Path, folder: Path, length: int, pooling: Any = "mean") -> Path:
    """An encoder whose config cuts its vectors, behind a module that gives them length one."""
    model = load_encoder(backbone, pooling, cnn_seed=1)
    model.append(Normalize())
    save_encoder(model, folder)
    config = folder / "config_sentence_transformers.json"
    rewritten(config, lambda given: given.update(truncate_dim=length))
    return folder


@pytest.mark.parametrize("pooling", ["mean", "cls", "token_cnn"])
@pytest.mark.parametrize("length", [1, 7, 500])
def test_vectors_are_as_long_as_the_config_says(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, length: int, pooling: Any
) -> None:
    whole = encode(load_encoder(tiny_backbone, pooling, cnn_seed=1), tiny_texts)
    model = load_encoder(cut_encoder(tiny_backbone, tmp_path / "cut", length, pooling))
    vectors = encode(model, tiny_texts)
    assert vectors.shape == (len(tiny_texts), min(length, whole.shape[1])) == (
        len(tiny_texts), encoder.dimension(model)
    )  # fmt: skip
    parts = whole[:, :length]
    parts = parts / np.linalg.norm(parts, axis=1, keepdims=True)
    assert np.allclose(vectors, parts, atol=1e-5)
    # A training's losses see the same, and so does whoever loads what is saved.
    assert model(model.preprocess(tiny_texts[:2]))["sentence_embedding"].shape == (
        2,
        min(length, whole.shape[1]),
    )
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


QUERY = "encoder.layer.1.attention.self.query.weight"
LONG = "red cup on a table " * 100


def refused(folder: Path, name: str, **given: object) -> None:
    with pytest.raises(ValueError, match=r"^No sentence encoder can be loaded from") as raised:
        load_encoder(folder, **given)  # type: ignore[arg-type]
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("pooling", ["cls", "mask"])
def test_a_directory_without_its_modules_is_no_plain_checkpoint(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    folder = save_encoder(load_encoder(tiny_backbone, pooling), tmp_path / "saved")
    for lacking in ("modules.json", "config_sentence_transformers.json", "template_encoder.json"):
        (folder / lacking).unlink(missing_ok=True)
        refused(folder, "modules.json", pooling="mean")
    shutil.rmtree(folder / ("1_Pooling" if pooling == "cls" else "1_MarkedState"))
    assert load_encoder(folder).max_seq_length == load_encoder(tiny_backbone).max_seq_length


def test_a_folder_of_something_else_is_no_module(tiny_backbone: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "plain"))
    (folder / "2026_run").mkdir()
    (folder / "2026_run" / "config.json").write_text("{}")
    assert dimension(load_encoder(folder)) == dimension(load_encoder(tiny_backbone))


def test_the_layers_of_a_router_are_looked_at_too(tiny_backbone: Path, tmp_path: Path) -> None:
    def route() -> list[torch.nn.Module]:
        model = load_encoder(tiny_backbone, "mean")
        return [*model, Dense(dimension(model), 4, activation_function=torch.nn.ReLU())]

    model = SentenceTransformer(modules=[Router.for_query_document(route(), route())])
    model.save_pretrained(str(tmp_path))
    positions = json.loads((tiny_backbone / "config.json").read_text())["max_position_embeddings"]
    assert longest(load_encoder(tmp_path)) == positions
    file = sorted(tmp_path.rglob("*Dense*/config.json"))[-1]
    rewritten(file, lambda config: config.update(activation_function="their_package.Swish"))
    refused(tmp_path, "their_package.Swish")


def activated(tiny_backbone: Path, folder: Path, pooling, name: str) -> Path:
    """An encoder with a Dense layer whose activation is called so."""
    model = load_encoder(tiny_backbone, pooling)
    model.append(Dense(dimension(model), 4, activation_function=torch.nn.ReLU()))
    save_encoder(model, folder)
    (file,) = folder.glob("*_Dense/config.json")
    rewritten(file, lambda config: config.update(activation_function=name))
    return folder


# With a module of ours the directory is loaded another way.
@pytest.mark.parametrize("pooling", ["mean", "mask"])
def test_an_activation_is_not_replaced_by_tanh(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    sound = activated(tiny_backbone, tmp_path / "a", pooling, "torch.nn.modules.activation.ReLU")
    assert (encode(load_encoder(sound), ["red cup", "table"], normalise=False) >= 0).all()
    foreign = activated(tiny_backbone, tmp_path / "b", pooling, "their_package.Swish")
    refused(foreign, "their_package.Swish")


def test_a_tokenizer_that_knows_more_than_the_weights_is_found(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "larger"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    known = len(tokenizer)
    # As Gemma's for an image, which no text contains.
    tokenizer.add_tokens(["<picture>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    load_encoder(folder)
    tokenizer.add_tokens(["zebra", "quagga"])
    tokenizer.save_pretrained(folder)
    refused(folder, f"'zebra' is number {known + 1}")


def test_static_embeddings_know_their_tokens_too(tiny_backbone: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone).backend_tokenizer
    for rows, folder in ((tokenizer.get_vocab_size(), "whole"), (7, "short")):
        table = StaticEmbedding(tokenizer, embedding_weights=np.ones((rows, 4), np.float32))
        SentenceTransformer(modules=[table]).save_pretrained(str(tmp_path / folder))
    assert load_encoder(tmp_path / "whole").max_seq_length == math.inf
    refused(tmp_path / "short", "7")


def test_an_encoder_without_a_table_of_tokens_is_not_asked_for_one(tmp_path: Path) -> None:
    CanineModel(
        CanineConfig(hidden_size=48, num_hidden_layers=1, num_attention_heads=2)
    ).save_pretrained(tmp_path)
    CanineTokenizer().save_pretrained(tmp_path)
    assert np.isfinite(encode(load_encoder(tmp_path), ["red cup", LONG])).all()


def bert_like(backbone: Path, folder: Path) -> int:
    shutil.copytree(backbone, folder)
    return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])


def mpnet(backbone: Path, folder: Path) -> int:
    """One whose positions start behind the padding, without RoBERTa in its name."""
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    config = MPNetConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=20,
        pad_token_id=1,
    )
    MPNetModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return 18


def test_relative_positions_have_no_end(tiny_backbone: Path, tmp_path: Path) -> None:
    """What the directory says stays, and may be raised."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    config = DebertaV2Config(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=20,
        position_biased_input=False,
        relative_attention=True,
    )
    DebertaV2Model(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    longer = load_encoder(tmp_path, max_length=90)
    assert longer.max_seq_length == 90
    assert np.isfinite(encode(longer, [LONG])).all()
    longer.save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "sentence_bert_config.json"
    rewritten(file, lambda config: config.update(max_seq_length=90))
    assert load_encoder(tmp_path / "saved").max_seq_length == 90


@pytest.mark.parametrize("make", [bert_like, mpnet])
@pytest.mark.parametrize("asked", [None, 10_000])
def test_no_input_is_longer_than_the_positions(
    tiny_backbone: Path, tmp_path: Path, make: Callable[[Path, Path], int], asked: int | None
) -> None:
    most = make(tiny_backbone, tmp_path / "model")
    load_encoder(tmp_path / "model", "mean").save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "tokenizer_config.json"
    rewritten(file, lambda config: config.update(model_max_length=5_000))
    model = load_encoder(tmp_path / "saved", max_length=asked)
    assert longest(model) == most
    assert model.max_seq_length == most
    assert np.isfinite(encode(model, [LONG])).all()
    assert load_encoder(tmp_path / "saved", max_length=7).max_seq_length == 7


Tensors = dict[str, np.ndarray]


def reweighted(file: Path, change: Callable[[Tensors], object]) -> None:
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


def rewritten(file: Path, change: Callable[[Any], object]) -> None:
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))


@pytest.fixture(params=["checkpoint", "SentenceTransformer"])
def changed(
    request: pytest.FixtureRequest, tiny_backbone: Path, tmp_path: Path
) -> Callable[[Callable[[Tensors], object]], Path]:
    """A copy of the tiny encoder with other weights, plain or with its modules."""

    def _changed(change: Callable[[Tensors], object]) -> Path:
        folder = tmp_path / "changed"
        if request.param == "checkpoint":
            shutil.copytree(tiny_backbone, folder)
        else:
            load_encoder(tiny_backbone, "mean").save_pretrained(str(folder))
        reweighted(folder / "model.safetensors", change)
        return folder

    return _changed


def renamed(weights: Tensors) -> None:
    for name in list(weights):
        weights[f"other.{name}"] = weights.pop(name)


def damaged(weights: Tensors) -> None:
    weights[QUERY] = weights[QUERY].copy()
    weights[QUERY][3, 3] = np.nan


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda weights: weights.pop(QUERY), QUERY),
        (renamed, "more"),
        (lambda weights: weights.update({QUERY: weights[QUERY][:5]}), QUERY),
        (damaged, QUERY),
    ],
    ids=["one is missing", "all have other names", "one is too small", "one has NaN"],
)
def test_an_encoder_without_its_weights(changed, change, name: str) -> None:
    refused(changed(change), name)


def bare(weights: Tensors) -> None:
    for name in [name for name in weights if name.startswith("pooler")]:
        del weights[name]
    weights["cls.predictions.bias"] = np.zeros(3, np.float32)


def misshapen(weights: Tensors) -> None:
    weights["pooler.dense.weight"] = weights["pooler.dense.weight"][:3]


@pytest.mark.parametrize("change", [bare, misshapen])
def test_a_pooler_may_be_missing_and_a_head_left_over(changed, change) -> None:
    folder = changed(change)
    model = load_encoder(folder)
    found = dict(model[0].model.named_parameters())
    query = load_file(folder / "model.safetensors")[QUERY]
    assert torch.equal(found[QUERY].detach(), torch.from_numpy(query))
    # A random one would be saved, and taken for the backbone's own by whoever copies it.
    assert not [name for name in found if "pooler" in name]
    assert np.isfinite(encode(model, ["a red cup"])).all()
    model.save_pretrained(str(folder.parent / "saved"))
    assert layer_of(folder.parent / "saved") is None


DENSE, TOKENS = "2_Dense/model.safetensors", "tokenizer.json"
NOTHING = '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Nothing"}]'


@pytest.mark.parametrize(
    ("file", "fault", "name"),
    [
        ("config.json", '{"model_type": "bert", "hidden_size": "32"}', ""),
        ("1_Pooling/config.json", "{}", ""),
        ("modules.json", '["a"]', ""),
        ("modules.json", NOTHING, "Nothing"),
        (TOKENS, lambda config: config["model"]["vocab"].update(red=500), "'red' is number 500"),
        *(
            ("config_sentence_transformers.json", {"truncate_dim": length}, "truncate_dim")
            for length in (0, 2.5, "7", True)
        ),
        (DENSE, lambda weights: weights.pop("linear.weight"), "linear.weight"),
        (
            DENSE,
            lambda weights: weights.update({"linear.weight": weights["linear.weight"][:1]}),
            "linear.weight",
        ),
    ],
)
def test_a_directory_with_a_fault_is_one_sentence(
    tiny_backbone: Path, tmp_path: Path, file: str, fault: Any, name: str
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.append(Dense(in_features=dimension(model), out_features=4))
    model.save_pretrained(str(tmp_path))
    if isinstance(fault, str):
        (tmp_path / file).write_text(fault)
    elif isinstance(fault, dict):
        rewritten(tmp_path / file, lambda config: config.update(fault))
    elif file == DENSE:
        reweighted(tmp_path / file, fault)
    else:
        rewritten(tmp_path / file, fault)
    refused(tmp_path, name)


@pytest.mark.parametrize("fault", ["damaged", "voiceless", "nothing"])
def test_a_model_that_cannot_be_loaded(tiny_backbone: Path, tmp_path: Path, fault: str) -> None:
    folder = tmp_path if fault == "nothing" else spoilt(tiny_backbone, fault, tmp_path)
    refused(folder, "")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^out of memory$"), encoder.refused():
        raise RuntimeError("out of memory")
