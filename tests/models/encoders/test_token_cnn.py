"""SARCSE's embedding against literal loops, and what is part of a text."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.settings import FormSettings, TokenCnnForm, pooling_name, read_pooling
from tercet.models.encoders.token_cnn import (
    KERNELS,
    TokenCnn,
    from_first_to_last,
    windows_within,
)

TEXTS = ["the old file is open", "read a row of the new array", "green", "red blue", "one " * 9]
SMALL = TokenCnnForm("token_cnn", channels=7, filters=2, activation="tanh", seed=3)


def _by_loops(module: Any, states: torch.Tensor) -> list[float]:
    """Equations 3 and 4 for one text's token states (tokens, width), without special tokens."""
    rows = [row.tolist() for row in states]
    rows += [[0.0] * module.width] * (5 - len(rows))
    multi = []
    for cnn, size in zip(module.text_cnns, KERNELS, strict=True):
        weight, bias = cnn.weight.tolist(), cnn.bias.tolist()
        best = []
        for channel in range(module.channels):
            values = []
            for start in range(len(rows) - size + 1):
                value = bias[channel]
                for step in range(size):
                    for number in range(module.width):
                        value += weight[channel][number][step] * rows[start + step][number]
                values.append(np.tanh(value))
            best.append(max(values))
        multi.append(best)
    weight, bias = module.cnn.weight.tolist(), module.cnn.bias.tolist()
    made = []
    for which in range(module.filters):
        for place in range(module.channels - 1):
            value = bias[which]
            for kernel in range(3):
                for step in range(2):
                    value += weight[which][0][kernel][step] * multi[kernel][place + step]
            made.append(value)
    return made


def test_the_embedding_is_that_of_literal_loops(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, SMALL, cnn_seed=0)
    found = encode(model, TEXTS, batch_size=3, normalise=False)
    assert found.shape == (5, 12) == (5, model.get_embedding_dimension())
    for text, vector in zip(TEXTS, found, strict=True):
        with torch.inference_mode():
            states = model[0](model.preprocess([text]))["token_embeddings"][0, 1:-1]
        assert len(states) == len(text.split())
        np.testing.assert_allclose(vector, _by_loops(model[1], states), atol=1e-5)


def test_padding_on_either_side_and_other_texts_play_no_part() -> None:
    torch.manual_seed(1)
    module = TokenCnn(4, 6, 2, "relu", 0, [101, 102])
    ids = torch.tensor([[101, 5, 6, 7, 102]])
    states = torch.randn(1, 5, 4)
    alone = module({"input_ids": ids, "attention_mask": ids > 0, "token_embeddings": states})
    for left in (0, 3):
        padded = torch.zeros(2, 9, dtype=torch.long)
        padded[0, left : left + 5] = ids
        padded[1] = torch.arange(1, 10)
        around = torch.randn(2, 9, 4)
        around[0, left : left + 5] = states
        given = {"input_ids": padded, "attention_mask": padded > 0, "token_embeddings": around}
        found = module(given)
        torch.testing.assert_close(found["sentence_embedding"][:1], alone["sentence_embedding"])
        assert found["cnn_text"][0].nonzero().flatten().tolist() == [left + 1, left + 2, left + 3]


@pytest.mark.parametrize("role", ["bos", "eos"])
def test_a_tokenizers_only_special_token_is_no_part_of_the_text(
    tiny_backbone: Path, tmp_path: Path, role: str
) -> None:
    backbone = shutil.copytree(tiny_backbone, tmp_path / role)
    tokenizer = Tokenizer.from_file(str(backbone / "tokenizer.json"))
    form = "<it> $A" if role == "bos" else "$A <it>"
    tokenizer.add_special_tokens(["<it>"])
    number = tokenizer.get_vocab()["<it>"]
    tokenizer.post_processor = TemplateProcessing(single=form, special_tokens=[("<it>", number)])
    named: dict[str, Any] = {f"{role}_token": "<it>", "pad_token": "[PAD]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(backbone)
    torch.manual_seed(0)
    BertModel(BertConfig.from_pretrained(backbone, vocab_size=number + 1)).save_pretrained(backbone)
    model = load_encoder(backbone, SMALL, cnn_seed=0)
    features = model(model.preprocess(TEXTS))
    for row, text in enumerate(TEXTS):
        with torch.inference_mode():
            states = model[0](model.preprocess([text]))["token_embeddings"][0]
        own = states[1:] if role == "bos" else states[:-1]
        found = features["sentence_embedding"][row].detach()
        np.testing.assert_allclose(found, _by_loops(model[1], own), atol=1e-5)
        # What a decoder makes the text's tokens of.
        assert int(features["cnn_text"][row].sum()) == len(text.split()) == len(own)


def test_a_text_ends_with_its_last_own_token() -> None:
    own = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    told = [[0, 1, 1, 1, 0], [0] * 5, [1] * 5]
    text = from_first_to_last(own)
    assert text.long().tolist() == told
    # Three tokens from place 1 count as five; none at all begins at 0.
    assert windows_within(text, 3).long().tolist() == [
        [0, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
    ]
    assert windows_within(text, 5)[2].long().tolist() == [1, 0, 0, 0, 0]


def test_first_weights_follow_from_the_forms_seed_or_that_of_its_training(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    def drawn(seed: int | None, cnn_seed: int) -> np.ndarray:  # type: ignore[type-arg]
        form = replace(SMALL, seed=seed)
        return encode(load_encoder(tiny_backbone, form, cnn_seed=cnn_seed), TEXTS)

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = drawn(None, 42)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.abs(first - drawn(None, 43)).max() > 0.01
    for seed, cnn_seed in ((None, 42), (42, 43), (42, 44)):
        np.testing.assert_array_equal(drawn(seed, cnn_seed), first)
    # What has weights keeps them, whatever seed the next training has.
    free = replace(SMALL, seed=None)
    model = load_encoder(tiny_backbone, free, cnn_seed=42)
    kept = load_encoder(save_encoder(model, tmp_path / "saved"), free, cnn_seed=43)
    np.testing.assert_array_equal(encode(kept, TEXTS), first)


def test_an_encoder_takes_the_form_keeps_it_and_gives_it_up(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    mean = save_encoder(load_encoder(tiny_backbone, "mean"), tmp_path / "mean")
    fresh = load_encoder(tiny_backbone, SMALL, cnn_seed=0)
    np.testing.assert_array_equal(
        encode(load_encoder(mean, SMALL, cnn_seed=0), TEXTS), encode(fresh, TEXTS)
    )
    with torch.no_grad():
        fresh[1].cnn.bias.add_(1.0)
    trained = save_encoder(fresh, tmp_path / "trained")
    for asked in (None, SMALL):
        again = load_encoder(trained, asked)
        np.testing.assert_array_equal(encode(again, TEXTS), encode(fresh, TEXTS))
    np.testing.assert_allclose(
        encode(load_encoder(trained, "mean"), TEXTS), encode(load_encoder(mean), TEXTS), atol=1e-6
    )
    with pytest.raises(ValueError, match="channels"):
        load_encoder(trained, "token_cnn")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (None, "model.safetensors"),
        ({"channels": 9}, "config.json"),
        ({"activation": "sine"}, "sine"),
        ({"filters": None}, "filters"),
    ],
)
def test_a_damaged_directory_is_refused(
    tiny_backbone: Path, tmp_path: Path, change: Any, name: str
) -> None:
    path = save_encoder(load_encoder(tiny_backbone, SMALL, cnn_seed=0), tmp_path / "saved")
    config = path / "1_TokenCnn" / "config.json"
    if change is None:
        config.with_name("model.safetensors").unlink()
    else:
        written = json.loads(config.read_text()) | change
        config.write_text(json.dumps({k: v for k, v in written.items() if v is not None}))
    with pytest.raises(ValueError, match=name):
        load_encoder(path)


def test_onnx_gives_the_same_vectors(tiny_backbone: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from tercet.models.encoders.onnx_files import OnnxEncoder, write_onnx

    model = load_encoder(tiny_backbone, SMALL, cnn_seed=0)
    write_onnx(model, tmp_path / "model.onnx")
    exported: Any = OnnxEncoder(tmp_path / "model.onnx", model, threads=1)
    np.testing.assert_allclose(encode(exported, TEXTS), encode(model, TEXTS), atol=1e-6)


def test_the_form_is_written_as_it_is_read() -> None:
    assert read_pooling("token_cnn") == TokenCnnForm("token_cnn")
    assert pooling_name(SMALL) == "token_cnn"
    written = FormSettings(pooling=SMALL).model_dump(mode="json")
    assert FormSettings(**written).pooling == SMALL
