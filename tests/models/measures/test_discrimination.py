"""Measures of a judge of pairs, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from tercet.models.measures import discrimination, resampling
from tercet.models.measures.discrimination import CONTROLS, Pairs, control_logits, words

ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 1), st.integers(0, 4), st.integers(0, 3)),
    min_size=2,
    max_size=30,
)


def whole(measure: resampling.Measure, anchors: int) -> float:
    return float(measure(np.ones((1, anchors), dtype=np.int32))[0])


@given(ROWS)
def test_the_area_of_a_resample_is_that_of_its_pairs_written_out(
    rows: list[tuple[int, int, int, int]],
) -> None:
    scores, labels, anchors, _ = (np.array(column) for column in zip(*rows, strict=True))
    if len(set(labels.tolist())) < 2:
        return
    names, group = np.unique(anchors, return_inverse=True)
    counts = np.array([rows[int(np.flatnonzero(anchors == name)[0])][3] for name in names])
    found = discrimination.auc_of(labels, scores, anchors)(counts[None].astype(np.int32))[0]
    again = np.repeat(np.arange(len(rows)), counts[group])
    if len(set(labels[again].tolist())) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(roc_auc_score(labels[again], scores[again]), abs=1e-12)


def test_a_constant_score_has_an_area_of_a_half() -> None:
    measure = discrimination.auc_of([1, 0, 1, 0], [2.0] * 4, [0, 0, 1, 1])
    assert whole(measure, 2) == 0.5


def test_the_interval_knows_that_pairs_of_one_anchor_belong_together() -> None:
    # Two hundred pairs of four anchors say hardly more than four.
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 200)
    right_of = np.array([1.0, 1.0, 0.0, 1.0])
    anchors = np.arange(200) % 4
    p = np.where(right_of[anchors] > 0, labels, 1 - labels) * 0.8 + 0.1

    def width(groups: np.ndarray) -> float:
        measure = discrimination.accuracy_of(labels, p, groups)
        found = resampling.interval(resampling.sampled(measure, len(np.unique(groups)), 500, 1))
        assert found.value == pytest.approx(75.0)
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(anchors) > 4 * width(np.arange(200))


def test_accuracy_loss_and_calibration_error_by_hand() -> None:
    labels, p, anchors = [1, 0, 1, 0], [0.91, 0.94, 0.5, 0.2], [0, 0, 1, 1]
    assert whole(discrimination.accuracy_of(labels, p, anchors), 2) == 100 * (1 + 0 + 0.5 + 1) / 4
    found = whole(discrimination.log_loss_of(labels, p, anchors), 2)
    assert found == pytest.approx(log_loss(labels, p))
    # Bins: [0.9, 0.95) with a mean of 0.925 and a half true; 0.5 all true; 0.2 none.
    expected = (2 * (0.925 - 0.5) + 0.5 + 0.2) / 4
    assert whole(discrimination.calibration_error_of(labels, p, anchors), 2) == pytest.approx(
        expected
    )


def test_bins_begin_at_their_lower_edge() -> None:
    edges = np.arange(discrimination.BINS + 1) / discrimination.BINS
    expected = [*range(discrimination.BINS), discrimination.BINS - 1]
    assert discrimination.bin_of(edges).tolist() == expected
    assert discrimination.bin_of([0.0499, 0.8999]).tolist() == [0, 17]


def test_reliability_has_the_bins_that_have_pairs() -> None:
    labels, p, anchors = [1, 0, 1, 1], [0.91, 0.94, 0.92, 0.2], [0, 0, 1, 1]
    found = discrimination.reliability(labels, p, anchors)
    assert list(found) == [4, 18]
    pairs, mean, share = found[18]
    assert (pairs, mean) == (3, pytest.approx((0.91 + 0.94 + 0.92) / 3))
    assert whole(share, 2) == pytest.approx(2 / 3)
    # A resample that draws only the second anchor.
    assert share(np.array([[0, 2]], dtype=np.int32))[0] == 1.0
    assert np.isnan(found[4][2](np.array([[2, 0]], dtype=np.int32))[0])


@pytest.mark.parametrize(
    ("labels", "scores", "fault"),
    [
        ([1, 1], [0.1, 0.2], "false"),
        ([1, 2], [0.1, 0.2], "else"),
        ([1, 0], [0.1, float("nan")], "NaN"),
        ([1, 0], [0.1], "length"),
        ([], [], "false"),
    ],
)
def test_what_has_no_such_figure_is_refused(
    labels: list[int], scores: list[float], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        discrimination.auc_of(labels, scores, labels)


THINGS = ["lamp", "boat", "fence", "kettle", "ladder", "violin", "tent", "saddle"]


def pairs(kind: str, rows: int, seed: int) -> Pairs:
    """Labels that show in the second text alone, or only in both together."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows)
    anchors, texts = [], []
    for label in labels:
        thing, other = generator.choice(THINGS, 2, replace=False)
        anchors.append(f"The {thing} is there.")
        if kind == "hypothesis":
            texts.append(f"{'It is' if label else 'No, it is not'} the {other}.")
        else:
            texts.append(f"See the {thing if label else other}.")
    cosines = generator.random(rows) + 0.5 * labels
    return Pairs(anchors, texts, labels, cosines)


def areas(kind: str) -> dict[str, float]:
    test = pairs(kind, 300, 2)
    found = control_logits(pairs(kind, 600, 1), [test])
    return {name: float(roc_auc_score(test.labels, logits[0])) for name, logits in found.items()}


def test_the_second_text_alone_gives_a_label_away_to_both_controls_of_words() -> None:
    found = areas("hypothesis")
    assert found["hypothesis"] > 0.99
    assert found["pair_words"] > 0.99


def test_what_shows_in_both_texts_together_is_hidden_from_the_second_alone() -> None:
    found = areas("pair")
    assert found["hypothesis"] < 0.6
    assert found["pair_words"] > 0.99
    assert 0.75 < found["cosine"] < 0.95


def test_without_cosines_there_is_no_control_of_them() -> None:
    given = pairs("pair", 50, 1)
    bare = Pairs(given.anchors, given.texts, given.labels)
    assert list(control_logits(bare, [given])) == [name for name in CONTROLS if name != "cosine"]


def test_words_are_those_of_any_script_without_case_and_punctuation() -> None:
    assert words("It isn't Zürich, но Москва!") == ["it", "isn", "'t", "zürich", "но", "москва"]
