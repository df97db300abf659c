"""The classifier of pairs of vectors: what it learns, its calibration, and its files."""

import json
from pathlib import Path

import numpy as np
import pytest

from tercet.models import discriminators
from tercet.models.discriminators import PairModel, Platt, Vectors, fitted_platt


def vectors(rows: int, seed: int, dimension: int = 8) -> Vectors:
    """Pairs whose label is whether their third numbers have one sign, which no cosine shows."""
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(2 * rows, dimension)).astype(np.float32)
    first, second = np.arange(rows), rows + np.arange(rows)
    labels = (table[first, 2] * table[second, 2] > 0).astype(np.int64)
    return Vectors(table, first, second, labels)


def test_it_learns_what_no_cosine_shows() -> None:
    model = discriminators.fitted(vectors(3_000, 1), vectors(500, 2))
    test = vectors(1_000, 3)
    p = model.probabilities(test.vectors[test.first], test.vectors[test.second])
    assert ((p > 0.5) == test.labels).mean() > 0.85
    assert (((discriminators.cosines(test)) > 0) == test.labels).mean() < 0.7
    # Calibrated: as sure as it is right.
    right = np.where(p > 0.5, p, 1 - p)
    assert right.mean() == pytest.approx(((p > 0.5) == test.labels).mean(), abs=0.05)


def test_the_logit_is_the_sum_over_the_four_features() -> None:
    generator = np.random.default_rng(4)
    model = PairModel(generator.normal(size=(4, 5)), 0.3, Platt(2.0, -1.0))
    u, v = generator.normal(size=(2, 7, 5))
    found = model.logits(3 * u, v)
    for row in range(7):
        a, b = u[row] / np.linalg.norm(u[row]), v[row] / np.linalg.norm(v[row])
        features = np.stack([b, b - a, abs(b - a), a * b])
        logit = (model.weights * features).sum() + 0.3
        assert found[row] == pytest.approx(logit)
        p = 1 / (1 + np.exp(-(2.0 * logit - 1.0)))
        assert model.probabilities(u, v)[row] == pytest.approx(p)


def test_the_two_texts_are_not_interchangeable() -> None:
    model = PairModel(np.eye(4, 5), 0.0, Platt(1.0, 0.0))
    u, v = np.random.default_rng(5).normal(size=(2, 1, 5))
    assert model.logits(u, v)[0] != pytest.approx(model.logits(v, u)[0])


def test_blocks_and_references_change_nothing() -> None:
    given = vectors(50, 6)
    model = PairModel(np.random.default_rng(7).normal(size=(4, 8)), 0.1, Platt(1.0, 0.0))
    whole = model.logits(given.vectors[given.first], given.vectors[given.second])
    assert discriminators.pair_logits(model, given, block=7) == pytest.approx(whole)
    assert discriminators.cosines(given, block=7) == pytest.approx(discriminators.cosines(given))


def test_a_vector_without_a_direction_has_no_probability() -> None:
    model = PairModel(np.ones((4, 3)), 0.0, Platt(1.0, 0.0))
    p = model.probabilities(np.zeros((1, 3)), np.ones((1, 3)))
    assert np.isnan(p).tolist() == [True]


def test_a_dimension_that_never_varies_does_no_harm() -> None:
    fit, validation = vectors(300, 8), vectors(100, 9)
    for given in (fit, validation):
        given.vectors[:, 7] = 0.0
    model = discriminators.fitted(fit, validation)
    assert np.isfinite(model.weights).all()
    assert np.isfinite([model.calibration.slope, model.calibration.shift]).all()


def test_vectors_that_are_not_numbers_are_refused() -> None:
    broken = vectors(20, 1)
    broken.vectors[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        discriminators.fitted(broken, vectors(20, 2))
    broken.vectors[3] = 0.0
    with pytest.raises(ValueError, match="zero"):
        discriminators.fitted(broken, vectors(20, 2))


def test_it_is_written_as_numbers_and_read_again(tmp_path: Path) -> None:
    model = discriminators.fitted(vectors(200, 1), vectors(100, 2))
    discriminators.write(tmp_path, model)
    assert {path.name for path in tmp_path.iterdir()} == {"pair.safetensors", "pair.json"}
    assert json.loads((tmp_path / "pair.json").read_text())["dimension"] == 8
    again = discriminators.read(tmp_path)
    assert np.array_equal(again.weights, model.weights)
    assert (again.bias, again.calibration) == (model.bias, model.calibration)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="discriminator"):
        discriminators.read(tmp_path)


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
    ("logits", "labels", "fault"),
    [
        ([0.1, 0.2], [1, 1], "false"),
        ([0.1, 0.2], [1, 2], "false"),
        ([0.1], [1, 0], "label"),
        ([0.1, float("inf")], [1, 0], "infinity"),
        ([], [], "true"),
    ],
)
def test_what_cannot_be_calibrated(logits: list[float], labels: list[int], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        fitted_platt(logits, labels)
