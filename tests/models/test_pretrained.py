"""A checkpoint that lacks weights is refused, whoever loads it; only a new head may be drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from safetensors.torch import load_file, save_file
from tiny_generators import tiny_causal, tiny_seq2seq
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tercet.models import pretrained
from tercet.models.encoders.encoder import load_encoder
from tercet.models.generators import generator, layout
from tercet.models.pretrained import whole
from tercet.models.pretraining import network
from tercet.models.t5 import judge
from tercet.models.training import fit_generator
from tercet.models.vaegpt.network import from_gpt2, frozen_judge

WORDS = ["red", "cat", "sits"]


def lacking(folder: Path, part: str) -> Path:
    """The checkpoint without the tensors of this name."""
    file = folder / "model.safetensors"
    kept = {name: value for name, value in load_file(file).items() if part not in name}
    assert len(kept) < len(load_file(file))
    save_file(kept, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    "load",
    [
        pretrained.causal_model,
        from_gpt2,
        frozen_judge,
        lambda folder: network.loaded(folder, "causal"),
        lambda folder: generator.load(folder, "fp32", "cpu"),
    ],
)
def test_a_gpt2_without_a_layer_is_refused(load: Callable[[Path], Any], tmp_path: Path) -> None:
    folder = tiny_causal(tmp_path / "gpt2", WORDS)
    load(folder)
    with pytest.raises(ValueError, match=r"h\.0\.attn\."):
        load(lacking(folder, "h.0.attn"))


@pytest.mark.parametrize(
    "load",
    [
        judge.load_t5,
        fit_generator.load_t5,
        lambda folder: network.loaded(folder, "t5"),
        lambda folder: load_encoder(folder, "first_decoder"),
    ],
)
def test_a_t5_without_its_decoder_is_refused(load: Callable[[Path], Any], tmp_path: Path) -> None:
    folder = tiny_seq2seq(tmp_path / "t5", WORDS)
    load(folder)
    with pytest.raises(ValueError, match=r"decoder\."):
        load(lacking(folder, "decoder."))


def test_a_vaegpt_without_its_running_statistics_is_refused(tmp_path: Path) -> None:
    gpt2, folder = tiny_causal(tmp_path / "gpt2", WORDS), tmp_path / "vaegpt"
    from_gpt2(gpt2).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gpt2).save_pretrained(folder)
    layout.write(folder, layout.read(gpt2).model_copy(update={"form": "vaegpt"}))
    generator.load(folder, "fp32", "cpu")
    with fails("unreadable", "running_mean"):
        generator.load(lacking(folder, "running_mean"), "fp32", "cpu")


def test_a_masked_model_may_get_a_new_head_and_no_new_layer(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    model = network.loaded(tiny_backbone, "masked")
    with pytest.raises(ValueError, match="cls"):
        whole(AutoModelForMaskedLM, tiny_backbone)
    model.save_pretrained(tmp_path)
    network.loaded(tmp_path, "masked")
    with pytest.raises(ValueError, match=r"bert\."):
        network.loaded(lacking(tmp_path, "layer.0.attention.self.query"), "masked")


def test_a_plain_gpt2_is_no_vaegpt(tmp_path: Path) -> None:
    folder = tiny_causal(tmp_path / "gpt2", WORDS)
    laid = layout.read(folder)
    layout.write(folder, laid.model_copy(update={"form": "vaegpt"}))
    with fails("unreadable", "2"):
        generator.load(folder, "fp32", "cpu")
