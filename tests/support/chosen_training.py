"""A training that chooses its checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import training_run
from training_run import Weights, part

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.training.loop import Choice, LogRow


def nearness(backbone: Path) -> Callable[[Any], float | None]:
    """How near the model still is to the untouched one: the first step is the best."""
    torch.set_num_threads(1)
    texts = ["the old array", "a new value of the index"]
    before = encode(load_encoder(backbone, "mean"), texts)
    return lambda model: -float(np.abs(encode(model, texts) - before).sum())


def train(
    backbone: Path, rows: pa.Table, directory: Path, choice: Choice | None, **changes: Any
) -> tuple[Weights, list[LogRow]]:
    torch.set_num_threads(1)
    parts = [part(rows, sigma_cosine=0.1)]
    weights, trained = training_run.train(backbone, parts, directory, choice=choice, **changes)
    return weights, trained.log
