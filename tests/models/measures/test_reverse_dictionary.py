"""Ranks of entries, against a literal sort."""

from itertools import permutations

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


@pytest.mark.parametrize(
    ("row", "own"),
    [
        ([0, 0, 0, 0, 0], [0]),
        ([0, 0, 0, 0, 0], [0, 3]),
        ([2, 1, 1, 1, 0], [1, 2]),
        ([2, 2, 1, 1, 1, 1], [2, 3, 4]),
        ([1, 1, 1, 0, 0, 0], [0, 1, 4]),
        ([1, 1, 0], [0, 1]),
    ],
)
def test_of_entries_that_tie_every_order_is_as_likely(row: list[int], own: list[int]) -> None:
    places = []
    for drawn in permutations(range(len(row))):
        order = sorted(drawn, key=lambda entry: -row[entry])  # stable: ties stay as drawn
        places.append(1 + min(order.index(entry) for entry in own))
    found = ranks(lambda some: np.array([row], np.float32), [own])
    assert found.expected().tolist() == pytest.approx([np.mean(places)])
    for count in range(1, len(row) + 2):
        share = np.mean([place <= count for place in places])
        assert found.within(count).tolist() == pytest.approx([share])
    assert found.reciprocal().tolist() == pytest.approx([np.mean([1 / place for place in places])])


def test_rounding_breaks_no_tie() -> None:
    scores = np.array([[0.5, 0.5 + 1e-7, 0.1], [-0.5 - 1e-7, -0.5, 0.1]], np.float32)
    found = ranks(lambda some: scores[some], [[0], [0]])
    assert found.expected().tolist() == [1.5, 2.5]


@pytest.mark.parametrize("place", [0, 1])
def test_a_score_that_is_not_a_number_has_no_rank(place: int) -> None:
    scores = np.zeros((1, 2), np.float32)
    scores[0, place] = np.nan
    with pytest.raises(ValueError, match="diverged"):
        ranks(lambda some: scores[some], [[0]])


def test_the_figures() -> None:
    places = figures(Ranks(np.array([0, 0, 9, 9, 399]), np.array([0, 1, 0, 1, 0]), np.ones(5, int)))
    assert places.pop("median_rank") == 10.0
    values = {name: sampled(measure, 5, 10, 0).value for name, measure in places.items()}  # type: ignore[arg-type]
    mrr = 20 * (1 + 0.75 + 1 / 10 + (1 / 10 + 1 / 11) / 2 + 1 / 400)
    assert values == pytest.approx({"recall@1": 30.0, "recall@10": 70.0, "mrr": mrr})
