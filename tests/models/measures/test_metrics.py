"""Measures against hand-computed values and slow literal references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score

from tercet.models.measures import metrics


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


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
    ("x", "y", "fault"),
    [
        ([1, 1, 1], [1, 2, 3], "undefined"),
        ([1, 2, 3], [4, 4, 4], "undefined"),
        ([1, np.nan, 3], [1, 2, 3], "NaN"),
        ([1, 2, np.inf], [1, 2, 3], "infinity"),
        ([1], [2], "two"),
        ([1, 2], [1, 2, 3], "length"),
    ],
)
def test_spearman_never_returns_nan(x, y, fault):
    with pytest.raises(ValueError, match=fault):
        metrics.spearman(x, y)


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
    assert ranks.dtype == np.int32


def test_ties_count_against_a_constant_encoder():
    one = np.tile(unit(np.random.default_rng(2).normal(size=(1, 384))), (300, 1))
    assert set(metrics.answer_ranks(one, one, np.arange(300)).tolist()) == {300}


def test_answer_ranks_refuse_what_cannot_be_ranked():
    vectors = unit(np.eye(3))
    with pytest.raises(ValueError, match="answer"):
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
    with pytest.raises(ValueError, match="pair"):
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


def test_isotropy_by_hand():
    # Both axes alike, and their eigenvectors are the axes or turned by 45 degrees: no matter which,
    # Z is the same for all of them.
    even = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)
    assert metrics.isotropy(even) == pytest.approx(1)
    # Eigenvectors are (1, 0) and (0, 1): Z is 2e, 2/e, 2 and 2.
    assert metrics.isotropy(np.array([[1, 0], [1, 0]], dtype=np.float32)) == pytest.approx(
        np.exp(-2)
    )
    # Z is 2 cosh 1 for both signs of (1, 0), 2 for both of (0, 1).
    assert metrics.isotropy(np.array([[1, 0], [-1, 0]], dtype=np.float32)) == pytest.approx(
        1 / np.cosh(1)
    )
    with pytest.raises(ValueError, match="vector"):
        metrics.isotropy(even[:0])
    with pytest.raises(ValueError, match="NaN"):
        metrics.isotropy(np.full((2, 2), np.nan, dtype=np.float32))


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=1, max_size=30).filter(
        lambda rows: any(label for label, _ in rows)
    )
)
@settings(max_examples=60, deadline=None)
def test_average_precision_equals_scikit_learn(rows):
    labels, scores = zip(*rows, strict=True)
    expected = average_precision_score(labels, scores)
    assert metrics.average_precision(labels, scores) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "scores", "fault"),
    [
        ([0, 0], [1, 2], "none"),
        ([1, 2], [1, 2], "0 and 1"),
        ([1, 0], [1, np.nan], "NaN"),
        ([1], [1, 2], "length"),
    ],
)
def test_average_precision_never_returns_nan(labels, scores, fault):
    with pytest.raises(ValueError, match=fault):
        metrics.average_precision(labels, scores)


def test_in_order_by_hand():
    anchors = unit(np.array([[1, 0], [1, 0], [1, 0], [1, 0]]))
    near = unit(np.array([[1, 1], [1, 2], [3, 4], [1, 1e-8]]))
    far = unit(np.array([[1, 2], [1, 1], [3, -4], [1, 0]]))
    assert metrics.in_order(anchors, near, far).tolist() == [1.0, 0.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="NaN"):
        metrics.in_order(anchors, near, np.full((4, 2), np.nan, np.float32))
