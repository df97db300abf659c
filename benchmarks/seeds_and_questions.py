"""Two recipes' MRR on test document pairs, or nDCG@10, over other seeds and other questions.

    python benchmarks/seeds_and_questions.py --store STORE --first RUN RUN … --second RUN RUN …
    python benchmarks/seeds_and_questions.py --store STORE --set NAME --first RUN --second RUN

The runs of either recipe have the same seeds. NAME is one of `evaluate.retrieval_sets`. Prints the
gain of each over the untouched encoder and their difference, in points, with 95 % intervals of a
bootstrap that draws seeds and questions alike.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tercet.flows.results.queries import connect
from tercet.storage.store import Store, open_store

_RESAMPLES = 4_000
_MODELS = "JOIN (SELECT DISTINCT model_version, phase, seed FROM evaluations) USING (model_version)"
_RANKS = f"""
    SELECT phase, seed, 100 / rank FROM retrieval_ranks {_MODELS}
    WHERE task = 'document_pairs' AND split = 'test' AND phase IN ('base', 'encoder')
    ORDER BY pair_id
"""
_NDCG = f"""
    SELECT phase, seed, 100 * value FROM evaluation_items {_MODELS}
    WHERE suite = 'retrieval_sets' AND task = ? AND metric = 'ndcg@10'
        AND phase IN ('base', 'encoder')
    ORDER BY item
"""


def scores(store: Store, runs: Sequence[str], name: str | None) -> npt.NDArray[np.float64]:
    """(seeds, 2, questions), by seed: of the untouched encoder, and of the trained one.

    name: of a retrieval set, whose nDCG@10 is read; None reads MRR of test document pairs.
    """
    found: dict[int, list[list[float]]] = {}
    for run in runs:
        values: dict[tuple[str, int], list[float]] = defaultdict(list)
        with connect(store, run) as db:
            query = db.execute(_NDCG, [name]) if name else db.execute(_RANKS)
            for phase, seed, value in query.fetchall():
                values[phase, seed].append(value)
        before = next(own for (phase, _), own in values.items() if phase == "base")
        found |= {seed: [before, own] for (phase, seed), own in values.items() if phase != "base"}
    return np.array([found[seed] for seed in sorted(found)])


def told(values: npt.NDArray[np.float64]) -> str:
    """values: (seeds, questions)."""
    generator, (seeds, questions) = np.random.default_rng(0), values.shape
    means = [
        values[generator.integers(seeds, size=seeds)].mean(axis=0)[
            generator.integers(questions, size=questions)
        ]
        for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(np.stack(means).mean(axis=1), [0.025, 0.975])
    return f"{values.mean():+.2f} ({low:+.2f} to {high:+.2f}), {seeds} seeds, {questions} questions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="every-store")
    parser.add_argument("--set")
    parser.add_argument("--first", nargs="+", required=True)
    parser.add_argument("--second", nargs="+", required=True)
    asked = parser.parse_args()
    store = open_store(asked.store, create=False)
    first, second = (scores(store, runs, asked.set) for runs in (asked.first, asked.second))
    print(f"first       {told(first[:, 1] - first[:, 0])}")
    print(f"second      {told(second[:, 1] - second[:, 0])}")
    print(f"difference  {told(first[:, 1] - second[:, 1])}")


if __name__ == "__main__":
    main()
