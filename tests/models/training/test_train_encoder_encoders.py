"""What a phase makes of the encoder that it is given: its prompts, weights and precision."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from training_run import NUMBERS, Weights, mixed, part, same_weights, table, train

from tercet.models.encoders.encoder import load_encoder, save_encoder
from tercet.models.encoders.settings import Prompts
from tercet.models.training import train_encoder as module
from tercet.models.training.loop import Setting
from tercet.models.training.train_encoder import frozen

FEW = NUMBERS.model_copy(update={"epochs": 1.0, "max_steps": 6})


def few_steps(backbone: Path, texts: list[str], to: Path, **changes: Any) -> Weights:
    torch.set_num_threads(1)
    return train(backbone, mixed(table(texts)), to, FEW.model_copy(update=changes))[0]


def moved(before: Weights, after: Weights) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_lower_layers_and_embeddings_stay_and_the_rest_trains(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    before = load_encoder(tiny_backbone, "mean").state_dict()
    changed = moved(before, few_steps(tiny_backbone, tiny_texts, tmp_path, frozen_layers=1))
    assert changed
    assert all(".layer.1." in name for name in changed)
    free = moved(before, few_steps(tiny_backbone, tiny_texts, tmp_path / "free"))
    assert any("embeddings." in name for name in free)
    assert any(".layer.0." in name for name in free)


def test_what_was_frozen_can_train_in_the_next_phase(tiny_backbone: Path) -> None:
    # One that reads templates has its layers elsewhere.
    for pooling in ("mean", "mask"):
        model = load_encoder(tiny_backbone, pooling)  # type: ignore[arg-type]
        with frozen(model, 1):
            still = {name for name, p in model.named_parameters() if not p.requires_grad}
        assert any("embeddings." in name for name in still)
        assert any(".layer.0." in name for name in still)
        assert not any(".layer.1." in name for name in still)
        assert all(p.requires_grad for p in model.parameters())


def test_a_share_of_the_starting_weights_is_blended_in_once_even_after_a_restart(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    before = load_encoder(tiny_backbone, "mean").state_dict()
    alone = few_steps(tiny_backbone, tiny_texts, tmp_path / "alone")
    blend = few_steps(tiny_backbone, tiny_texts, tmp_path / "blend", weight_interpolation=0.25)
    for name, weight in blend.items():
        if weight.is_floating_point():
            wanted = 0.75 * alone[name] + 0.25 * before[name]
            assert torch.allclose(weight, wanted, atol=1e-6), name
    assert moved(alone, blend)
    # The training is finished: only its end is done again.
    again = few_steps(tiny_backbone, tiny_texts, tmp_path / "blend", weight_interpolation=0.25)
    assert same_weights(blend, again)


# Equally long, so that batches are the same without them.
BEFORE = {"anchor": "the old ", "positive": "red row "}
SIDES = {"anchor": "query", "positive": "document"}


@pytest.fixture
def sided(tiny_backbone: Path, tmp_path: Path) -> Path:
    prompts = Prompts(query=BEFORE["anchor"], document=BEFORE["positive"])
    return save_encoder(load_encoder(tiny_backbone, "mean", prompts=prompts), tmp_path / "sided")


def trained(backbone: Path, rows: pa.Table, directory: Path, **fields: object) -> Weights:
    torch.set_num_threads(1)
    numbers = NUMBERS.model_copy(update={"word_repetition": None, "epochs": 1.0})
    pairs = rows.drop_columns(["negative", "label"])
    weights, _ = train(backbone, [part(pairs, "info_nce", **fields)], directory, numbers)
    return weights


def prefixed(rows: pa.Table, before: dict[str, str]) -> pa.Table:
    """The rows, whose texts begin with these."""
    for place, (name, prompt) in enumerate(before.items(), start=1):
        texts = [prompt + text for text in rows[name].to_pylist()]
        rows = rows.set_column(place, name, pa.array(texts))
    return rows


def test_training_on_sides_is_training_on_texts_with_their_prompts(
    tiny_backbone: Path, sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    found = trained(sided, rows, tmp_path / "a", sides=SIDES)
    assert same_weights(found, trained(tiny_backbone, prefixed(rows, BEFORE), tmp_path / "b"))


def test_texts_are_read_with_the_encoders_default_prompt(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows, model = table(tiny_texts), load_encoder(tiny_backbone, "mean")
    model.prompts, model.default_prompt_name = {"both": "the old "}, "both"
    found = trained(save_encoder(model, tmp_path / "prompted"), rows, tmp_path / "a")
    both = dict.fromkeys(BEFORE, "the old ")
    assert same_weights(found, trained(tiny_backbone, prefixed(rows, both), tmp_path / "b"))


def test_without_sides_the_prompts_are_not_read(
    tiny_backbone: Path, sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    found = trained(sided, rows, tmp_path / "a")
    assert same_weights(found, trained(tiny_backbone, rows, tmp_path / "b", sides=SIDES))
    assert not same_weights(found, trained(sided, rows, tmp_path / "c", sides=SIDES))


def test_a_prompt_must_leave_the_trained_texts_some_room(
    sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    numbers = NUMBERS.model_copy(update={"max_length": 4})
    with pytest.raises(ValueError, match="query"):
        train(sided, [part(table(tiny_texts), sides=SIDES)], tmp_path / "a", numbers)


@pytest.mark.usefixtures("bf16_anywhere")
def test_bf16_is_near_fp32_and_leaves_the_model_in_fp32(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    numbers = NUMBERS.model_copy(update={"max_steps": 3})
    seen: list[Any] = []
    model = load_encoder(tiny_backbone, "mean")
    model[0].register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    setting = Setting(tmp_path / "bf16", 11, precision="bf16", log_steps=1)
    half = module.train_encoder(model, numbers, [part(rows, "info_nce")], setting)
    assert all(seen)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}
    full = train(tiny_backbone, [part(rows, "info_nce")], tmp_path / "full", numbers)[1]
    losses = [np.array([row["loss"] for row in log[:1]]) for log in (half.log, full.log)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[0] != losses[1]
