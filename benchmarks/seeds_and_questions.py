"""Two recipes' MRR on test document pairs, other seeds and other questions both allowed for.

    python benchmarks/seeds_and_questions.py --store STORE --first RUN RUN … --second RUN RUN …

The runs of either recipe have the same seeds, in the same order, one each. Prints the gain of each
over the untouched encoder and their difference, in points, with 95 % intervals of a bootstrap that
draws seeds and questions alike.
"""

import argparse

import numpy as np
import numpy.typing as npt

from tercet.flows.results.queries import connect
from tercet.storage.store import Store, open_store

_RESAMPLES = 4_000


def reciprocal_ranks(store: Store, run: str) -> npt.NDArray[np.float64]:
    """(2, questions): of the untouched encoder and of the trained one, by the questions' ids."""
    with connect(store, run) as db:
        found = db.sql("""
            SELECT pair_id,
                   max(100 / rank) FILTER (phase = 'base') AS before,
                   max(100 / rank) FILTER (phase = 'encoder') AS after
            FROM retrieval_ranks
            JOIN (SELECT DISTINCT model_version, phase FROM evaluations) USING (model_version)
            WHERE task = 'document_pairs' AND split = 'test'
            GROUP BY pair_id ORDER BY pair_id
        """).fetchnumpy()
    return np.stack([found["before"], found["after"]])


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
    parser.add_argument("--first", nargs="+", required=True)
    parser.add_argument("--second", nargs="+", required=True)
    asked = parser.parse_args()
    store = open_store(asked.store, create=False)
    first, second = (
        np.stack([reciprocal_ranks(store, run) for run in runs])
        for runs in (asked.first, asked.second)
    )
    print(f"first       {told(first[:, 1] - first[:, 0])}")
    print(f"second      {told(second[:, 1] - second[:, 0])}")
    print(f"difference  {told(first[:, 1] - second[:, 1])}")


if __name__ == "__main__":
    main()
