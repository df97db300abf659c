"""Ranks of entries, against a literal sort."""

import numpy as np
import pytest

from tercet.models.measures.resampling import sampled
from tercet.models.measures.reverse_dictionary import figures, ranks


@pytest.mark.parametrize("block", [1, 4, 64])
def test_a_rank_counts_the_other_entries_above_the_best_own_one(block: int) -> None:
    draw = np.random.default_rng(1)
    scores = draw.normal(size=(30, 12)).astype(np.float32)
    owners = [draw.choice(12, size=1 + i % 3, replace=False).tolist() for i in range(30)]
    found = ranks(lambda some: scores[some], owners, block)
    for row, own, rank in zip(scores, owners, found, strict=True):
        order = np.argsort(-row).tolist()
        assert rank == 1 + min(order.index(entry) for entry in own)


def test_entries_that_tie_share_their_places() -> None:
    scores = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [2.0, 1.0, 1.0, 1.0, 0.0]], np.float32)
    found = ranks(lambda some: scores[some], [[0], [1, 2]])
    # Alone among four others that are as good; behind one, beside one that is not its own.
    assert found.tolist() == [3.0, 2.5]


def test_the_figures() -> None:
    found = figures(np.array([1.0, 1.5, 10.0, 10.5, 400.0]))
    assert found.pop("median_rank") == 10.0
    values = {name: sampled(measure, 5, 10, 0).value for name, measure in found.items()}  # type: ignore[arg-type]
    mrr = 20 * (1 + 1 / 1.5 + 1 / 10 + 1 / 10.5 + 1 / 400)
    assert values == pytest.approx({"recall@1": 20.0, "recall@10": 60.0, "mrr": mrr})
