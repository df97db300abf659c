"""A training that chooses its checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from training_run import PHASE

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.training import loop as training
from tercet.models.training.choosing import Choice
from tercet.models.training.loop import Setting

Log = list[dict[str, Any]]


def nearness(backbone: Path) -> Callable[[Any], float | None]:
    """How near the model still is to the untouched one: the first step is the best."""
    torch.set_num_threads(1)
    texts = ["the old array", "a new value of the index"]
    before = encode(load_encoder(backbone, "mean"), texts)
    return lambda model: -float(np.abs(encode(model, texts) - before).sum())


def train(
    backbone: Path, rows: Any, directory: Path, choice: Choice | None, **changes: Any
) -> tuple[dict[str, torch.Tensor], Log]:
    torch.set_num_threads(1)
    setting = Setting(directory, seed=11, log_steps=2, choice=choice, **changes)
    model, log = training.train_phases(
        lambda: load_encoder(backbone, "mean"), [(PHASE, False, rows)], setting
    )
    return model.state_dict(), log
