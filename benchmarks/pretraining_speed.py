"""Tokens a second of pretraining on one thread, beside what the processor's matrix products allow.

    python benchmarks/pretraining_speed.py TEXTS.txt.gz [--lines 20000] [--steps 12]

Each form is trained from nothing on the first lines, with the sizes of `recipes/pretrain_cpu.yaml`,
for a few steps after two of warming up. Seconds are those of the processor, since other programs
share it. The share is that of the multiplications of the blocks and of the head (six per weight and
token, without attention and padding) against a bf16 product of two square matrices, both a second.
`unigram` is the entropy of the tokens that the last step asked for, in nats: a model whose loss is
below it has learnt more than frequencies. Results: `results/pretraining_speed.csv`.
"""

import argparse
import csv
import gzip
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from tercet.models.machine import keep_freed_memory
from tercet.models.pretraining import batches, network
from tercet.models.pretraining import tokenizer as tokenizers
from tercet.models.pretraining.batches import Task, TextBatches
from tercet.models.pretraining.forms import Form
from tercet.models.pretraining.pretrain import vocabulary
from tercet.models.training.loop import adafactor, adamw
from tercet.models.training.phase import Hyperparameters

VOCABULARY, LENGTH, TOKENS = 8192, 128, 4096
SHAPE = network.Shape(layers=4, width=256, heads=4, max_length=LENGTH)
MASKED = {"masked": 0.2, "causal": 0.2, "t5": 0.15}
WARM = 2


def product_rate(size: int = 2048, seconds: float = 3.0) -> float:
    """Floating-point operations a second of a bf16 product."""
    left, right = (torch.randn(size, size).bfloat16() for _ in range(2))
    left @ right
    done, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        left @ right
        done += 1
    return done * 2 * size**3 / (time.process_time() - began)


def measure(form: Form, lines: list[str], steps: int, folder: Path) -> dict[str, Any]:
    """Tokens and operations a second, and the last losses."""
    made = tokenizers.trained(form, VOCABULARY, LENGTH, lambda: iter([lines]))
    tokens = batches.tokenised(folder, iter([lines]), made, form, LENGTH)
    drawn = TextBatches(tokens, Task(form, MASKED[form], 0.2, LENGTH, TOKENS), vocabulary(made), 1)
    torch.manual_seed(1)
    model = network.LanguageModel(network.new_model(form, SHAPE, made), form).train()
    network.set_dropout(model.model, 0.0)
    making, rate = (adafactor, 2e-2) if form == "t5" else (adamw, 1e-3)
    optimizer = making(model, Hyperparameters(learning_rate=rate))
    embeddings = model.model.get_input_embeddings().weight.numel()
    blocks = sum(p.numel() for p in model.parameters()) - embeddings
    seen = operations = 0.0
    began = time.process_time()
    for step in range(WARM + steps):
        if step == WARM:
            seen, operations, began = 0.0, 0.0, time.process_time()
        inputs = drawn[step].inputs
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        own, asked = float(inputs["lengths"].sum()), float((inputs["answers"] >= 0).sum())
        # A T5's decoder passes its half of the blocks for what it writes alone.
        passed = own if form != "t5" else (own + asked) / 2
        seen += own
        operations += 6 * (blocks * passed + embeddings * asked)
    seconds = time.process_time() - began
    return {
        "form": form,
        "parameters": blocks + embeddings,
        "tokens_per_second": round(seen / seconds),
        "operations_per_second": operations / seconds,
        "loss": round(float(loss.detach()), 2),
        "unigram": round(unigram(tokens), 2),
    }


def unigram(tokens: batches.Texts) -> float:
    """The entropy of single tokens, in nats."""
    counts = np.bincount(np.asarray(tokens.ids))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("texts", type=Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=12)
    given = parser.parse_args()
    torch.set_num_threads(1)
    # As every training does.
    keep_freed_memory()
    with gzip.open(given.texts, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, given.lines)]
    peak = product_rate()
    rows = []
    for form in get_args(Form):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(form, lines, given.steps, Path(folder))
        row["share"] = round(row.pop("operations_per_second") / peak, 3)
        rows.append({**row, "product_gflops": round(peak / 1e9)})
        print(rows[-1], flush=True)
    path = Path(__file__).parent / "results" / "pretraining_speed.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
