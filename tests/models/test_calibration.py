"""Calibration by two numbers: Platt's fit against its likelihood."""

import numpy as np
import pytest

from tercet.models.discriminators import Platt, fitted_platt


def test_platt_gives_back_the_slope_and_shift_that_made_the_labels() -> None:
    generator = np.random.default_rng(2)
    logits = generator.normal(3.0, 5.0, 20_000)
    true = Platt(0.4, -1.5)
    labels = generator.random(20_000) < true.probabilities(logits)
    found = fitted_platt(logits, labels)
    assert found.slope == pytest.approx(0.4, rel=0.05)
    assert found.shift == pytest.approx(-1.5, rel=0.08)


def test_a_judge_that_is_mostly_wrong_is_not_turned_round() -> None:
    found = fitted_platt([3.0, 2.0, 1.0, -1.0, -2.0, -3.0, 1.5], [0, 0, 0, 1, 1, 1, 1])
    assert found.slope == 0
    # Platt's targets: (4 · 5/6 + 3 · 1/5) / 7.
    assert found.probabilities([5.0, -5.0]) == pytest.approx([0.561905, 0.561905], abs=1e-6)


def test_platt_is_the_optimum_of_its_likelihood() -> None:
    generator = np.random.default_rng(3)
    logits, labels = generator.normal(0, 2, 60), generator.integers(0, 2, 60)
    found = fitted_platt(logits, labels)
    positive = labels.sum()
    target = np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (60 - positive + 2))

    def loss(platt: Platt) -> float:
        p = platt.probabilities(logits)
        return float(-(target * np.log(p) + (1 - target) * np.log(1 - p)).sum())

    for slope, shift in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert loss(found) < loss(Platt(found.slope + slope, found.shift + shift))


def test_separable_and_constant_logits_have_finite_calibrations() -> None:
    apart = fitted_platt([-900.0, -800.0, 700.0, 1000.0], [0, 0, 1, 1])
    assert np.isfinite([apart.slope, apart.shift]).all()
    p = apart.probabilities([-1e6, 1e6])
    assert p.tolist() == pytest.approx([0.0, 1.0])
    same = fitted_platt([2.0] * 8, [1, 1, 1, 1, 1, 1, 0, 0])
    assert same.probabilities([2.0])[0] == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(
    ("logits", "labels", "said"),
    [
        ([0.1, 0.2], [1, 1], "false"),
        ([0.1, 0.2], [1, 2], "false"),
        ([0.1], [1, 0], "label"),
        ([0.1, float("inf")], [1, 0], "infinity"),
        ([], [], "true"),
    ],
)
def test_what_cannot_be_calibrated(logits: list[float], labels: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fitted_platt(logits, labels)
