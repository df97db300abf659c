"""A training of two phases in little."""

import dataclasses
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import torch

from tercet.models import seeding
from tercet.models.encoders.encoder import load_encoder
from tercet.models.training import checkpoints
from tercet.models.training import loop as training
from tercet.models.training.loop import Phase, Setting

PHASE = Phase(
    name="first",
    loss="gaussian_decay",
    batch_size=8,
    learning_rate=1e-3,
    epochs=2.0,
    max_steps=None,
    warmup=0.1,
    weight_decay=0.01,
    max_length=16,
    tau=0.05,
    width=0.1,
    gate="symmetric",
    detach=True,
    head=True,
    word_repetition=True,
)


PAIRS = dataclasses.replace(
    PHASE, name="second", loss="contrastive", head=False, word_repetition=False, epochs=1.0
)


def table(texts: list[str]) -> pa.Table:
    """84 triplets: 11 batches of eight, the last of four."""
    texts = texts[:84]
    return pa.table(
        {
            "row_id": pa.array(seeding.text_ids(texts), pa.uint64()),
            "anchor": texts,
            "positive": [" ".join(text.split()[:-1]) for text in texts],
            "negative": [text + " not" for text in texts],
            "label": pa.array([0.8] * len(texts), pa.float32()),
        }
    )


def train(backbone: Path, rows: pa.Table, directory: Path, **changes: object) -> tuple:  # type: ignore[type-arg]
    setting = Setting(directory, seed=11, log_steps=2, **changes)  # type: ignore[arg-type]
    pairs = rows.select(["row_id", "anchor", "positive"])
    phases = [(PHASE, False, rows), (PAIRS, False, pairs)]
    model, log = training.train_phases(lambda: load_encoder(backbone, "mean"), phases, setting)
    return model.state_dict(), log


def same_weights(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def without_rate(log: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: v for key, v in row.items() if key != "rows_per_second"} for row in log]


def wait_for(directory: Path, step: int, child: subprocess.Popen) -> int:  # type: ignore[type-arg]
    """Waits until a checkpoint of at least that step is there; returns its step."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and child.poll() is None:
        found = checkpoints.latest(directory)
        reached = -1 if found is None else int(found.name.rpartition("-")[2])
        if reached >= step:
            return reached
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of step {step} (exit code {child.poll()})")
