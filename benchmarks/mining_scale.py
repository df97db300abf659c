"""Seconds and memory of mining: the nearest text below a cap, by blocks, beside a bare product.

    python benchmarks/mining_scale.py --queries 64000 --pool 1000000

Random unit vectors of 384 dimensions, three caps a query, ten texts a document. The baseline is the
matrix product alone, in the same blocks: what no exact search can do without.
"""

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np

from tercet.tasks.scoring.mine import Ids, Vectors, nearest_below

DIMENSION, BLOCK, QUERIES = 384, 16_384, 512


def unit(rng: np.random.Generator, rows: int) -> Vectors:
    vectors = rng.standard_normal((rows, DIMENSION), dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=64_000)
    parser.add_argument("--pool", type=int, default=1_000_000)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    queries, one = unit(rng, asked.queries), unit(rng, BLOCK)
    docs = rng.integers(0, asked.pool // 10, asked.queries).astype(np.uint64)
    caps = rng.uniform(0.1, 0.9, (asked.queries, 3)).astype(np.float32)
    blocks = -(-asked.pool // BLOCK)

    def pool() -> Iterator[tuple[Vectors, Ids]]:
        for block in range(blocks):
            owners = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint64) // np.uint64(10)
            yield one, owners

    start = time.perf_counter()
    for vectors, _ in pool():
        for first in range(0, len(queries), QUERIES):
            queries[first : first + QUERIES] @ vectors.T
    bare = time.perf_counter() - start
    start = time.perf_counter()
    nearest_below(queries, docs, caps, pool())
    mined = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{asked.queries:,} queries, {asked.pool:,} texts: {mined:.1f} s, the product alone "
        f"{bare:.1f} s, ratio {mined / bare:.2f}, peak {peak:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
