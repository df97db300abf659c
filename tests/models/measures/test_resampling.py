"""Intervals, the paired test and several seeds: by hand, and simulations of known truth."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, f1_score

from tercet.models.measures import resampling
from tercet.models.measures.resampling import (
    Sampled,
    average_precision_of,
    combined,
    compare_seeds,
    f1_of,
    interval,
    mean_of,
    mean_within,
    paired_test,
    sampled,
    spearman_of,
    summarise_seeds,
)

RNG = np.random.default_rng(3)
GOLD = RNG.integers(0, 6, 90).astype(float)
COSINES = np.round(GOLD + RNG.normal(0, 2, 90), 1)
LABELS = (GOLD > 3).astype(int)

# Each measure, and the same of the rows that were drawn, by somebody else's code.
MEASURES = {
    "mean": (mean_of(COSINES), lambda i: COSINES[i].mean()),
    "spearman": (spearman_of(GOLD, COSINES), lambda i: stats.spearmanr(GOLD[i], COSINES[i])[0]),
    "average precision": (
        average_precision_of(LABELS, COSINES),
        lambda i: average_precision_score(LABELS[i], COSINES[i]),
    ),
    "f1": (f1_of(LABELS, COSINES > 2), lambda i: f1_score(LABELS[i], COSINES[i] > 2)),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_figure_in_a_resample_is_that_of_the_rows_drawn(name):
    measure, literal = MEASURES[name]
    counts = np.random.default_rng(5).multinomial(90, np.full(90, 1 / 90), size=40)
    expected = [literal(np.repeat(np.arange(90), row)) for row in counts]
    assert measure(counts.astype(np.int32)) == pytest.approx(np.array(expected), abs=1e-12)
    assert sampled(measure, 90, 100, 1).value == pytest.approx(literal(np.arange(90)))


@pytest.mark.parametrize("name", MEASURES)
def test_blocks_do_not_change_the_resamples(name, monkeypatch):
    whole = sampled(MEASURES[name][0], 90, 300, 7)
    monkeypatch.setattr(resampling, "_BLOCK", 90 * 7)
    parted = sampled(MEASURES[name][0], 90, 300, 7)
    assert parted.draws == pytest.approx(whole.draws)
    assert not np.array_equal(sampled(MEASURES[name][0], 90, 300, 8).draws, whole.draws)


def test_the_interval_of_a_constant_has_no_width():
    found = interval(sampled(mean_of([3.0] * 20), 20, 200, 0))
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))


def test_the_interval_holds_the_middle_95_percent_of_the_draws():
    found = interval(Sampled(50.0, np.arange(101.0)))
    assert (found.low, found.high) == pytest.approx((2.5, 97.5))


def test_a_tiny_set_has_no_interval_where_resamples_are_often_undefined():
    found = interval(sampled(spearman_of([1, 2], [3, 4]), 2, 200, 0))
    assert (found.value, found.low, found.high) == (1, None, None)
    tiny = sampled(spearman_of([1, 2], [3, 4]), 2, 200, 0)
    assert paired_test(tiny, tiny).p is None


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: sampled(mean_of([]), 0, 100, 0), "row"),
        (lambda: mean_of([1.0, np.nan]), "NaN"),
        (lambda: spearman_of([1, 1, 1], [1, 2, 3]), "undefined"),
        (lambda: spearman_of([1, np.nan, 2], [1, 2, 3]), "NaN"),
        (lambda: average_precision_of([0, 0], [1, 2]), "none"),
        (lambda: sampled(f1_of([0, 0], [0, 0]), 2, 100, 0), "undefined"),
    ],
)
def test_what_is_undefined_is_said_and_no_nan(make, fault):
    with pytest.raises(ValueError, match=fault):
        make()


def test_a_mean_of_figures_resamples_each_by_itself():
    a, b = Sampled(1.0, np.array([1.0, 3.0])), Sampled(4.0, np.array([5.0, 1.0]))
    plain, weighted = combined([a, b]), combined([a, b], [1, 3])
    assert (plain.value, plain.draws.tolist()) == (2.5, [3.0, 2.0])
    assert (weighted.value, weighted.draws.tolist()) == (3.25, [4.0, 1.5])


def test_the_paired_test_by_hand():
    after, before = Sampled(3.0, np.array([2.0, 3.0, 4.0, 1.0])), Sampled(1.0, np.full(4, 1.5))
    found = paired_test(after, before)
    # Differences 0.5, 1.5, 2.5 and -0.5: one of four is not above none, 2 * (1 + 1) / (4 + 1).
    assert (found.value, found.p) == (2, pytest.approx(0.8))
    assert paired_test(after, after).p == 1
    swapped = paired_test(before, after)
    assert (swapped.value, swapped.p) == (-2, pytest.approx(0.8))
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low))
    with pytest.raises(ValueError, match="resamples"):
        paired_test(after, Sampled(1.0, np.ones(3)))


@dataclass
class Shares:
    """What came of many simulated data sets, as shares of them."""

    covered: float
    false: float
    found: float
    found_unpaired: float


def simulate(draw, truth, rows, sets=300, resamples=300):
    """draw: a random generator to the measures of a model, an equal one and a better one."""
    rng = np.random.default_rng(6)
    counts = np.zeros(4)
    for number in range(sets):
        one, equal, better = (sampled(m, rows, resamples, number) for m in draw(rng, rows))
        own = interval(one)
        # The same figures, resampled apart from each other: as if the items were others.
        apart = Sampled(one.value, rng.permutation(one.draws))
        counts += (
            own.low <= truth <= own.high,
            paired_test(equal, one).p < 0.05,
            paired_test(better, one).p < 0.05,
            paired_test(better, apart).p < 0.05,
        )
    return Shares(*counts / sets)


def test_spearman_against_simulated_truth():
    def draw(rng, rows):
        gold, shared = rng.normal(size=rows), rng.normal(size=rows)

        def model(rho):
            noise = 0.9 * shared + np.sqrt(1 - 0.81) * rng.normal(size=rows)
            return spearman_of(gold, rho * gold + np.sqrt(1 - rho**2) * noise)

        return model(0.7), model(0.7), model(0.75)

    # Spearman of a bivariate normal distribution, by Pearson's rho.
    found = simulate(draw, 6 / np.pi * np.arcsin(0.7 / 2), rows=150)
    assert 0.92 <= found.covered <= 0.98
    assert 0.02 <= found.false <= 0.08
    assert found.found > found.found_unpaired + 0.2


def test_groups_are_drawn_whole():
    groups = np.repeat(np.arange(30), 3)
    measure, rows = mean_within(COSINES, groups[::-1])
    assert rows == 30
    drawn = np.random.default_rng(5).integers(0, 30, 30)
    counts = np.bincount(drawn, minlength=30)[None].astype(np.int32)
    by_group = COSINES[::-1].reshape(30, 3)
    assert measure(counts)[0] == pytest.approx(by_group[drawn].mean())
    # Groups of one row each are rows.
    single, rows = mean_within(COSINES, np.arange(90))
    counts = np.bincount(RNG.integers(0, 90, 90), minlength=90)[None].astype(np.int32)
    assert rows == 90
    assert single(counts)[0] == pytest.approx(mean_of(COSINES)(counts)[0])


# Two-sided 95 % points of Student's t, from any table of it.
T_OF_TWO = 4.3027


def test_a_summary_by_hand():
    found = summarise_seeds([70.0, 72.0, 74.0])
    assert (found.mean, found.sd, found.n) == (72, pytest.approx(2), 3)
    half = T_OF_TWO * 2 / np.sqrt(3)
    assert (found.low, found.high) == pytest.approx((72 - half, 72 + half), abs=1e-3)


def test_one_seed_has_no_deviation():
    found = summarise_seeds([70.0])
    assert (found.mean, found.sd, found.low, found.high, found.n) == (70, None, None, None, 1)
    pair = compare_seeds({42: 71.0}, {42: 70.0})
    assert (pair.mean, pair.sd, pair.low, pair.smallest_visible, pair.n) == (1, None, None, None, 1)


def test_seeds_that_gave_the_same_tell_no_interval():
    """Ties are common where few queries are ranked; they are no sign of certainty."""
    found = summarise_seeds([0.1 + 0.2, 0.3, 0.3])
    assert (found.mean, found.sd, found.low, found.high) == (pytest.approx(0.3), 0.0, None, None)
    pair = compare_seeds({1: 70.0, 2: 71.0}, {1: 69.0, 2: 70.0})
    assert (pair.mean, pair.low, pair.high, pair.smallest_visible) == (1.0, None, None, None)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [1.0, np.inf]])
def test_no_summary_of_nothing_or_nan(values):
    with pytest.raises(ValueError, match="seeds"):
        summarise_seeds(values)
    with pytest.raises(ValueError, match="common"):
        compare_seeds({1: 70.0}, {2: 71.0})


def test_a_paired_difference_by_hand_over_the_common_seeds():
    a = {1: 71.0, 2: 74.0, 3: 75.0, 9: 10.0}
    b = {3: 72.0, 1: 70.0, 2: 72.0, 8: 99.0}
    found = compare_seeds(a, b)
    # Differences 1, 2 and 3.
    assert (found.mean, found.sd, found.n) == (2, pytest.approx(1), 3)
    assert found.smallest_visible == pytest.approx(T_OF_TWO / np.sqrt(3), abs=1e-3)
    assert found.low == pytest.approx(2 - found.smallest_visible)
    assert found.high == pytest.approx(2 + found.smallest_visible)
