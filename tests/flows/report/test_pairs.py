"""Cosines of pairs by their human scores."""

import numpy as np
import pytest
from report_sections import of, table

from tercet.flows.pages.blocks import Chart
from tercet.flows.report import (
    pairs,
)
from tercet.flows.results.subject import Subject


def test_false_pairs_follow_the_median_normalisation() -> None:
    gold = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 2.5, 2.5, 2.5])
    # The medians are 0.2 and 0.8: 0.8 becomes 1, 0.2 becomes 0, and 0.5 one half.
    values = np.array([0.1, 0.2, 0.8, 0.2, 0.8, 0.9, 0.5, 0.65, 0.35])
    # False: 0.8 of score 0 (too high), 0.2 of score 5 (too low), and 0.25 off on either side.
    assert pairs.errors(gold, values, 0.0, 5.0) == (2, 2)


def test_a_difference_of_just_the_bound_is_not_false() -> None:
    gold = np.array([0.0, 1.0, 0.5])
    assert pairs.errors(gold, np.array([0.0, 1.0, 0.69]), 0.0, 1.0) == (0, 0)
    assert pairs.errors(gold, np.array([0.0, 1.0, 0.71]), 0.0, 1.0) == (1, 0)


@pytest.mark.parametrize("gold", [[1.0, 5.0], [0.0, 4.0], []])
def test_without_extreme_scores_nothing_can_be_normalised(gold: list[float]) -> None:
    assert pairs.errors(np.array(gold), np.array(gold) / 5, 0.0, 5.0) is None


def test_false_pairs_of_both_models(whole: tuple[Subject, ...]) -> None:
    # One pair of score 5 has the cosine of score 0.
    assert table(pairs.false_pairs(whole)) == [
        ["before", 0, 1, "2.7", 37],
        ["after", 0, 1, "2.7", 37],
    ]


def test_densities_have_a_hill_for_each_score(whole: tuple[Subject, ...]) -> None:
    before, after = of(pairs.density(whole), Chart)
    assert {row["gold"] for row in before.spec["data"]["values"]} == set(range(6))
    peaks = {row["label"]: row["x"] for row in before.spec["layer"][1]["data"]["values"]}
    assert peaks["0"] == pytest.approx(0.1, abs=0.02)
    assert peaks["4"] == pytest.approx(0.74, abs=0.02)
    # A density: its area is one.
    curve = [row for row in before.spec["data"]["values"] if row["gold"] == 2]
    step = curve[1]["x"] - curve[0]["x"]
    assert sum(row["density"] for row in curve) * step == pytest.approx(1, abs=0.02)
    assert after.title == "After"
