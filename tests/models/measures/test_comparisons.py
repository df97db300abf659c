"""Several seeds: Student's t by hand, and against simulated truth."""

import numpy as np
import pytest

from tercet.models.measures.resampling import compare_seeds, summarise_seeds

# Two-sided 95 % points of Student's t, from any table of it.
T_OF_TWO, T_OF_FOUR = 4.3027, 2.7764


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


def test_the_interval_covers_the_true_difference_and_pairing_narrows_it():
    """Five seeds move both arms by 0.75 points, as NOTES has it; the arms differ by 0.4."""
    rng = np.random.default_rng(1)
    seeds = range(5)
    covered, false, width, unpaired = [], [], [], []
    for _ in range(1_000):
        common = rng.normal(0, 0.75, 5)
        b, same = 75 + common + rng.normal(0, 0.2, 5), 75 + common + rng.normal(0, 0.2, 5)
        a = 75.4 + common + rng.normal(0, 0.2, 5)
        found = compare_seeds(dict(zip(seeds, a, strict=True)), dict(zip(seeds, b, strict=True)))
        covered.append(found.low <= 0.4 <= found.high)
        none = compare_seeds(dict(zip(seeds, same, strict=True)), dict(zip(seeds, b, strict=True)))
        false.append(abs(none.mean) > none.smallest_visible)
        width.append(found.smallest_visible)
        unpaired.append(summarise_seeds(a).high - summarise_seeds(a).mean)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 0.03 <= np.mean(false) <= 0.07
    assert np.mean(width) < 0.5 * np.mean(unpaired)
    # The deviation of a difference is 0.2 * sqrt(2).
    expected = T_OF_FOUR * 0.2 * np.sqrt(2) / np.sqrt(5)
    assert np.mean(width) == pytest.approx(expected, rel=0.1)
