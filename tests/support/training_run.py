"""A phase of training in little: two parts with losses of their own, of which one has groups."""

import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tercet.models import seeding
from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.training import checkpoints
from tercet.models.training.loop import LogRow, Setting
from tercet.models.training.phase import OPERATIONS, Drawing, Hyperparameters, PartRows, Trained
from tercet.models.training.train_encoder import train_encoder

NUMBERS = Hyperparameters(
    name="first",
    batch_size=8,
    learning_rate=1e-3,
    epochs=2.0,
    warmup=0.1,
    weight_decay=0.01,
    max_length=16,
    word_repetition="many",
)

Weights = dict[str, torch.Tensor]


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


def part(rows: pa.Table, loss: str = "gaussian_decay", **changes: Any) -> PartRows:
    """A part with its loss's own numbers, some of them changed."""
    fields = {
        key: changes.pop(key)
        for key in ("name", "weight", "share", "slots", "drawing", "teacher", "sides")
        if key in changes
    }
    name = fields.pop("name", loss)
    return PartRows(name, rows, loss, loss_named(loss).params(**changes), **fields)


def drawing(rows: pa.Table) -> Drawing:
    """All operations alike; every third row has two generations."""
    some = rows.sort_by("row_id").to_pylist()[::3]
    made = [(row["row_id"], place, f"{row['anchor']} {place}") for row in some for place in (1, 2)]
    of, ids, texts = zip(*made, strict=True)
    generated = {"row_id": pa.array(of, pa.uint64()), "candidate_id": pa.array(ids, pa.uint64())}
    shares = dict.fromkeys(OPERATIONS, 1.0)
    return Drawing(shares, pa.table({**generated, "text": pa.array(texts)}))


def drawn(rows: pa.Table) -> list[PartRows]:
    """One part whose positives are drawn from its anchors."""
    pairs = rows.drop_columns(["negative", "label"])
    pairs = pairs.set_column(2, "positive", pairs["anchor"])
    return [part(pairs, "nt_xent", head=True, drawing=drawing(rows))]


def mixed(rows: pa.Table) -> list[PartRows]:
    """Pairs behind a head, and triplets of which two belong to a group."""
    groups = pa.array(np.arange(rows.num_rows, dtype=np.uint64) // 2)
    grouped = rows.append_column("group", groups)
    return [
        part(rows, "info_nce", name="topical", head=True, share=0.75),
        part(grouped, name="strict", sigma_cosine=0.1, weight=0.5, share=0.25),
    ]


def train(
    backbone: Path,
    parts: list[PartRows],
    directory: Path,
    numbers: Hyperparameters = NUMBERS,
    mini_batch: int | None = None,
    **changes: Any,
) -> tuple[Weights, Trained]:
    setting = Setting(**{"directory": directory, "seed": 11, "log_steps": 2, **changes})
    model = load_encoder(backbone, "mean")
    trained = train_encoder(model, numbers, parts, setting, mini_batch)
    return model.state_dict(), trained


def same_weights(left: Weights, right: Weights) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def without_rate(log: list[LogRow]) -> list[LogRow]:
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
