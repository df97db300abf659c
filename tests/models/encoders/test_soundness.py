"""Faults of an encoder that would pass in silence, or end a run midway, are told at once."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers.base.modules import Dense
from transformers import AutoTokenizer, MPNetConfig, MPNetModel

from tercet.models.encoders.encoder import dimension, encode, load_encoder, longest
from tercet.models.encoders.own_modules import save_encoder

QUERY = "encoder.layer.1.attention.self.query.weight"
LONG = "red cup on a table " * 100


def refused(folder: Path, said: str, **given: object) -> None:
    with pytest.raises(ValueError, match=r"^No sentence encoder can be loaded from") as found:
        load_encoder(folder, **given)  # type: ignore[arg-type]
    assert found.match(said)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("pooling", ["cls", "mask"])
def test_a_directory_without_its_modules_is_no_plain_checkpoint(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    folder = save_encoder(load_encoder(tiny_backbone, pooling), tmp_path / "saved")
    for lacking in ("modules.json", "config_sentence_transformers.json", "template_encoder.json"):
        (folder / lacking).unlink(missing_ok=True)
        refused(folder, r"it has \S+, but the modules\.json .* is missing$", pooling="mean")
    shutil.rmtree(folder / ("1_Pooling" if pooling == "cls" else "1_MarkedState"))
    load_encoder(folder)


def activated(tiny_backbone: Path, folder: Path, pooling, name: str) -> Path:
    """An encoder with a Dense layer whose activation is called so."""
    model = load_encoder(tiny_backbone, pooling)
    model.append(Dense(dimension(model), 4, activation_function=torch.nn.ReLU()))
    save_encoder(model, folder)
    (file,) = folder.glob("*_Dense/config.json")
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "activation_function": name}))
    return folder


# With a module of ours the directory is loaded another way.
@pytest.mark.parametrize("pooling", ["mean", "mask"])
def test_an_activation_is_not_replaced_by_tanh(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    sound = activated(tiny_backbone, tmp_path / "a", pooling, "torch.nn.modules.activation.ReLU")
    assert (encode(load_encoder(sound), ["red cup", "table"], normalise=False) >= 0).all()
    foreign = activated(tiny_backbone, tmp_path / "b", pooling, "their_package.Swish")
    refused(foreign, "activation their_package.Swish, which is code of its own")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_found(
    tiny_backbone: Path, tmp_path: Path, value: float
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "damaged"))
    weights = load_file(folder / "model.safetensors")
    weights[QUERY] = weights[QUERY].copy()
    weights[QUERY][3, 3] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, rf"its weights are damaged: \S*{QUERY} has NaN or infinity$")


def test_a_tokenizer_that_knows_more_than_the_weights_is_found(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "larger"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    known = len(tokenizer)
    tokenizer.add_tokens(["zebra", "quagga"])
    tokenizer.save_pretrained(folder)
    refused(folder, f"its tokenizer has {known + 2} tokens, but its weights know only {known}$")


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


@pytest.mark.parametrize("make", [bert_like, mpnet])
@pytest.mark.parametrize("asked", [None, 10_000])
def test_no_input_is_longer_than_the_positions(
    tiny_backbone: Path, tmp_path: Path, make: Callable[[Path, Path], int], asked: int | None
) -> None:
    most = make(tiny_backbone, tmp_path / "model")
    load_encoder(tmp_path / "model", "mean").save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 5_000}))
    model = load_encoder(tmp_path / "saved", max_length=asked)
    assert longest(model) == most
    assert model.max_seq_length == most
    assert np.isfinite(encode(model, [LONG])).all()
    assert load_encoder(tmp_path / "saved", max_length=7).max_seq_length == 7
