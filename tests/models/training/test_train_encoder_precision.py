"""A phase in bf16."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_run import NUMBERS, part, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training import train_encoder as module
from tercet.models.training.loop import Setting


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
    assert model.forward.__func__ is type(model).forward
    full = train(tiny_backbone, [part(rows, "info_nce")], tmp_path / "full", numbers)[1]
    losses = [np.array([row["loss"] for row in log[:1]]) for log in (half.log, full.log)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[0] != losses[1]
