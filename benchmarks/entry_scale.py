"""What a large dictionary costs: seconds and memory of its matrix, of ICA and of a training step.

    python benchmarks/entry_scale.py --entries 150000 --width 384

The vectors are random. The encoder's own share of a step is not in it: only the softmax.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from tercet.models.encoders.entry_space import (
    create_space,
    fill_means,
    make_independent,
    read_space,
)
from tercet.models.losses.definition import definition_loss

_STEPS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=150_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--ica", action="store_true")
    asked = parser.parse_args()
    count, width = asked.entries, asked.width
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        vectors = np.memmap(folder / "vectors", "<f4", "w+", 0, (count, width))
        for start in range(0, count, 10_000):
            rows = vectors[start : start + 10_000]
            rows[:] = draw.laplace(size=rows.shape)
        # Each entry has its own definition, and every third one that of its neighbour too.
        own = np.arange(count)
        pairs = np.concatenate([own, own[::3]]), np.concatenate([own, (own[::3] + 1) % count])
        with told("matrix"):
            matrix = create_space(folder / "space", own, [str(i) for i in own], width)
            fill_means(matrix, vectors, *pairs)
        if asked.ica:
            with told("ica"):
                print(f"{make_independent(matrix, 0.26).rounds} rounds")
        space = read_space(folder / "space")
        texts = torch.randn(asked.batch, width, requires_grad=True)
        owners = torch.randint(0, count, (asked.batch, 2))
        with told(f"softmax of {_STEPS} steps of {asked.batch}"):
            for _ in range(_STEPS):
                loss, _ = definition_loss(texts, space.matrix, owners)
                loss.backward()


@contextmanager
def told(what: str) -> Iterator[None]:
    """Seconds, and the process's largest memory so far."""
    began = time.monotonic()
    yield
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what}: {time.monotonic() - began:.1f} s, at most {most:.2f} GiB so far")


if __name__ == "__main__":
    main()
