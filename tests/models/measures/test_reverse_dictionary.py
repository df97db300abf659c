"""Ranks of entries, against a literal sort."""

import numpy as np
import pytest

from tercet.models.measures.resampling import sampled
from tercet.models.measures.reverse_dictionary import Ranks, figures, ranks


@pytest.mark.parametrize("block", [1, 4, 64])
def test_a_rank_counts_the_other_entries_above_the_best_own_one(block: int) -> None:
    draw = np.random.default_rng(1)
    scores = draw.normal(size=(30, 12)).astype(np.float32)
    owners = [draw.choice(12, size=1 + i % 3, replace=False).tolist() for i in range(30)]
    found = ranks(lambda some: scores[some], owners, block)
    for row, own, rank in zip(scores, owners, found.expected(), strict=True):
        order = np.argsort(-row).tolist()
        assert rank == 1 + min(order.index(entry) for entry in own)


def test_entries_that_tie_share_their_places() -> None:
    scores = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [2.0, 1.0, 1.0, 1.0, 0.0]], np.float32)
    found = ranks(lambda some: scores[some], [[0], [1, 2]])
    # Alone among four others that are as good; behind one, beside one that is not its own.
    assert found.expected().tolist() == [3.0, 2.5]
    assert found.within(1).tolist() == [0.2, 0.0]
    assert found.within(2).tolist() == [0.4, 0.5]
    mean = [(1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 5, (1 / 2 + 1 / 3) / 2]
    assert found.reciprocal().tolist() == pytest.approx(mean)


def test_rounding_breaks_no_tie() -> None:
    scores = np.array([[0.5, 0.5 + 1e-7, 0.1], [-0.5 - 1e-7, -0.5, 0.1]], np.float32)
    found = ranks(lambda some: scores[some], [[0], [0]])
    assert found.expected().tolist() == [1.5, 2.5]


@pytest.mark.parametrize("place", [0, 1])
def test_a_score_that_is_not_a_number_has_no_rank(place: int) -> None:
    scores = np.zeros((1, 2), np.float32)
    scores[0, place] = np.nan
    with pytest.raises(ValueError, match="its training has diverged"):
        ranks(lambda some: scores[some], [[0]])


def test_the_figures() -> None:
    places = figures(Ranks(np.array([0, 0, 9, 9, 399]), np.array([0, 1, 0, 1, 0])))
    assert places.pop("median_rank") == 10.0
    values = {name: sampled(measure, 5, 10, 0).value for name, measure in places.items()}  # type: ignore[arg-type]
    mrr = 20 * (1 + 0.75 + 1 / 10 + (1 / 10 + 1 / 11) / 2 + 1 / 400)
    assert values == pytest.approx({"recall@1": 30.0, "recall@10": 70.0, "mrr": mrr})
