"""Measures against hand-computed values, slow literal references and simulated truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tercet.models import metrics


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_midranks_share_the_mean_of_tied_places():
    assert metrics.midranks([30, 10, 20, 10]).tolist() == [4.0, 1.5, 3.0, 1.5]
    assert metrics.midranks([7, 7, 7]).tolist() == [2.0, 2.0, 2.0]
    assert metrics.midranks([]).tolist() == []


def test_spearman_by_hand():
    assert metrics.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert metrics.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1 2 3 4 against 2 1 4 3: 1 - 6 * 4 / (4 * 15) = 0.6.
    assert metrics.spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)
    # Ranks 1 2 3 against 1.5 1.5 3: covariance 1.5, variances 2 and 1.5.
    assert metrics.spearman([1, 2, 3], [5, 5, 9]) == pytest.approx(1.5 / np.sqrt(3))


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=40).filter(
        lambda rows: len({a for a, _ in rows}) > 1 and len({b for _, b in rows}) > 1
    )
)
@settings(max_examples=60, deadline=None)
def test_spearman_with_ties_equals_scipy(rows):
    x, y = zip(*rows, strict=True)
    assert metrics.spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([1, 1, 1], [1, 2, 3], "undefined"),
        ([1, 2, 3], [4, 4, 4], "undefined"),
        ([1, np.nan, 3], [1, 2, 3], "NaN"),
        ([1, 2, np.inf], [1, 2, 3], "infinity"),
        ([1], [2], "two pairs"),
        ([1, 2], [1, 2, 3], "equal length"),
    ],
)
def test_spearman_never_returns_nan(x, y, says):
    with pytest.raises(ValueError, match=says):
        metrics.spearman(x, y)


def test_answer_ranks_by_hand():
    answers = unit(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]))
    queries = unit(np.array([[1.0, 0.1], [1.0, 0.1], [0.1, 1.0]]))
    ranks = metrics.answer_ranks(queries, answers, np.array([0, 2, 1]))
    assert ranks.tolist() == [1, 3, 2]
    assert ranks.dtype == np.int32


def slow_ranks(queries, answers, own):
    ranks = []
    for query, mine in zip(queries.astype(float), own, strict=True):
        scores = [float(query @ answer) for answer in answers.astype(float)]
        nearer = [i for i in range(len(scores)) if i != mine and scores[i] >= scores[mine] - 1e-6]
        ranks.append(1 + len(nearer))
    return ranks


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 22])
def test_answer_ranks_equal_the_literal_reference_in_any_block(block):
    rng = np.random.default_rng(1)
    answers = unit(rng.normal(size=(23, 5)))
    own = rng.integers(0, 23, size=31)
    queries = unit(answers[own] + rng.normal(size=(31, 5)))
    ranks = metrics.answer_ranks(queries, answers, own, block)
    assert ranks.tolist() == slow_ranks(queries, answers, own)


def test_ties_count_against_a_constant_encoder():
    one = np.tile(unit(np.random.default_rng(2).normal(size=(1, 384))), (300, 1))
    assert set(metrics.answer_ranks(one, one, np.arange(300)).tolist()) == {300}


def test_answer_ranks_refuse_what_cannot_be_ranked():
    vectors = unit(np.eye(3))
    with pytest.raises(ValueError, match="row of its answer"):
        metrics.answer_ranks(vectors, vectors, np.array([0, 1, 3]))
    broken = vectors.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        metrics.answer_ranks(broken, vectors, np.arange(3))


def test_recall_and_reciprocal_ranks():
    ranks = np.array([1, 2, 10, 11])
    assert metrics.recall_at(ranks, 1).tolist() == [1, 0, 0, 0]
    assert metrics.recall_at(ranks, 10).tolist() == [1, 1, 1, 0]
    assert metrics.reciprocal_ranks(ranks) == pytest.approx([1, 1 / 2, 1 / 10, 1 / 11])


def test_alignment_by_hand():
    first = np.array([[1, 0], [0, 1]], dtype=np.float32)
    # Squared distances 2 and 0.
    assert metrics.alignment(first, np.array([[0, 1], [0, 1]], dtype=np.float32)) == pytest.approx(
        1
    )
    assert metrics.alignment(first, -first) == pytest.approx(4)
    with pytest.raises(ValueError, match="at least one pair"):
        metrics.alignment(first[:0], first[:0])


def test_uniformity_by_hand():
    vectors = np.array([[1, 0], [-1, 0], [0, 1]], dtype=np.float32)
    # Squared distances 4, 2 and 2.
    expected = np.log((np.exp(-8) + 2 * np.exp(-4)) / 3)
    assert metrics.uniformity(vectors) == pytest.approx(expected)
    assert metrics.uniformity(np.ones((4, 3), dtype=np.float32)) == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="two vectors"):
        metrics.uniformity(vectors[:1])


@pytest.mark.parametrize("block", [1, 50, 1 << 22])
def test_uniformity_equals_the_double_loop_in_any_block(block):
    vectors = unit(np.random.default_rng(3).normal(size=(17, 4)))
    terms = [
        np.exp(-2 * float(np.sum((vectors[i].astype(float) - vectors[j]) ** 2)))
        for i in range(17)
        for j in range(17)
        if i != j
    ]
    found = metrics.uniformity(vectors, block=block)
    assert found == pytest.approx(float(np.log(np.mean(terms))), abs=1e-6)


def test_bootstrap_is_seeded_and_resamples_columns_together():
    values = np.random.default_rng(4).random((50, 1))
    both = np.hstack([values, 2 * values + 1])
    one, two = metrics.bootstrap(both, 500, seed=7)
    assert one.value == pytest.approx(values.mean())
    assert (two.low, two.high) == pytest.approx((2 * one.low + 1, 2 * one.high + 1))
    assert metrics.bootstrap(both, 500, seed=7) == [one, two]
    assert metrics.bootstrap(both, 500, seed=8) != [one, two]


def test_bootstrap_in_several_blocks_is_the_bootstrap_in_one(monkeypatch):
    values = np.random.default_rng(5).random(40)
    whole = metrics.bootstrap(values, 300, seed=1)[0]
    monkeypatch.setattr(metrics, "_BLOCK", 40 * 7)
    parted = metrics.bootstrap(values, 300, seed=1)[0]
    assert (parted.low, parted.high) == pytest.approx((whole.low, whole.high))


def test_bootstrap_of_a_constant_has_no_width():
    (found,) = metrics.bootstrap([3.0] * 20, 200)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))


@pytest.mark.parametrize("values", [[], [1.0, np.nan]])
def test_bootstrap_refuses_nothing_and_nan(values):
    with pytest.raises(ValueError, match="bootstrap needs"):
        metrics.bootstrap(values)


def coverage(intervals, truth):
    return np.mean([found.low <= truth <= found.high for found in intervals])


def test_bootstrap_covers_a_simulated_truth():
    rng = np.random.default_rng(6)
    samples = rng.random((400, 250)) < 0.47
    found = [metrics.bootstrap(row, 400, seed=i)[0] for i, row in enumerate(samples)]
    assert 0.915 <= coverage(found, 0.47) <= 0.98


def test_paired_bootstrap_covers_a_simulated_gain_and_is_narrower_than_unpaired():
    rng = np.random.default_rng(8)
    found, unpaired = [], []
    for i in range(200):
        before = rng.random(250) < 0.5
        # A tenth of the queries that failed now succeed: a gain of 0.05.
        after = before | (rng.random(250) < 0.1)
        found += metrics.paired_bootstrap(after, before, 300, seed=i)
        unpaired += metrics.bootstrap(after, 300, seed=i)
    assert 0.89 <= coverage(found, 0.05) <= 0.985
    width = np.mean([interval.high - interval.low for interval in found])
    assert width < 0.6 * np.mean([interval.high - interval.low for interval in unpaired])


def test_paired_bootstrap_needs_the_same_rows():
    with pytest.raises(ValueError, match="same rows"):
        metrics.paired_bootstrap([1, 2], [1, 2, 3])
