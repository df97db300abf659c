"""Seconds and memory of searching passages as mining and the round trip do, beside a bare product.

    OMP_NUM_THREADS=1 python benchmarks/search_scale.py --passages 50000 200000 400000 --of 2000000
    OMP_NUM_THREADS=1 python benchmarks/search_scale.py --by words --passages 25000 50000 100000

By vectors: random unit vectors of 384 dimensions, in blocks as they are stored. Mining keeps the
100 nearest of each query, the round trip 1,000. The baseline is the matrix product alone: what no
exact search can do without. By words: passages of 60 words drawn by Zipf's law from 100,000,
queries of 8.

Seconds are those of the processor. What the last two numbers of passages differ in is what further
ones cost, and so `--of` passages are extrapolated.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from tercet.models.retrieval import bm25, rankings

DIMENSION, STORED, ROWS, BLOCK = 384, 4_096, 128, 32_768
DEPTHS = {"mining": 100, "round trip": 1_000}
WORDS, LONG, SHORT = 100_000, 60, 8


def unit(rng: np.random.Generator, rows: int) -> npt.NDArray[np.float32]:
    vectors = rng.standard_normal((rows, DIMENSION), dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def by_vectors(rng: np.random.Generator, queries: int, passages: list[int], of: int) -> None:
    asked, one = unit(rng, queries), unit(rng, BLOCK)

    def blocks(count: int, size: int) -> Iterator[npt.NDArray[np.float32]]:
        for start in range(0, count, size):
            # The same vectors again, turned: what is nearest differs from block to block.
            turned = np.roll(one[: min(size, count - start)], start // size, axis=1)
            yield np.ascontiguousarray(turned)

    def product(count: int) -> None:
        for block in blocks(count, BLOCK):
            for start in range(0, queries, ROWS):
                asked[start : start + ROWS] @ block.T

    print("work,passages,seconds,product,ratio,peak_mib")
    before: dict[str, tuple[float, float, int]] = {}
    for count in passages:
        bare = seconds(lambda: product(count))  # noqa: B023
        for work, depth in DEPTHS.items():
            taken = seconds(lambda: rankings.search_vectors(asked, blocks(count, STORED), depth))  # noqa: B023
            print(f"{work},{count},{taken:.1f},{bare:.1f},{taken / bare:.2f},{peak():.0f}")
            if work in before and count == passages[-1]:
                was = before[work]
                more = (of - count) / (count - was[2])
                all_, alone = taken + more * (taken - was[0]), bare + more * (bare - was[1])
                print(f"{work},{of} extrapolated,{all_:.1f},{alone:.1f},{all_ / alone:.2f},")
            before[work] = taken, bare, count


def by_words(rng: np.random.Generator, queries: int, passages: list[int]) -> None:
    weights = 1 / np.arange(1, WORDS + 1)
    edges = np.cumsum(weights / weights.sum())

    def texts(count: int, words: int) -> Iterator[str]:
        for _ in range(count):
            drawn = np.searchsorted(edges, rng.random(words))
            yield " ".join(f"w{word}" for word in drawn)

    print("passages,build_seconds,search_seconds,peak_mib")
    asked = list(texts(queries, SHORT))
    for count in passages:
        made: list[bm25.Bm25] = []
        built = seconds(lambda: made.append(bm25.build(list(texts(count, LONG)))))  # noqa: B023
        found = seconds(lambda: bm25.search(made[0], asked, DEPTHS["round trip"]))  # noqa: B023
        print(f"{count},{built:.1f},{found:.1f},{peak():.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("vectors", "words"), default="vectors")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--passages", type=int, nargs="+", default=[50_000, 200_000, 400_000])
    parser.add_argument("--of", type=int, default=2_000_000)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    if asked.by == "words":
        by_words(rng, asked.queries, asked.passages)
    else:
        by_vectors(rng, asked.queries, asked.passages, asked.of)


if __name__ == "__main__":
    main()
