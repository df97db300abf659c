"""The rule against its words, and gains counted under what other questions choose."""

from typing import Any

import numpy as np
import pytest

from tercet.models.measures.cautious_choice import choose_candidate, cross_fitted, linked_groups


def by_words(gains: Any) -> int:
    """The rule as it is written: two cases, each with its paired standard error."""

    def error(values: Any) -> float:
        return float(values.std(ddof=1) / np.sqrt(len(values))) * (1 + 1e-9)

    best = int(gains.mean(axis=0).argmax())
    if gains[:, best].mean() <= error(gains[:, best]):
        return 0
    within = [
        column
        for column in range(gains.shape[1])
        if (gains[:, best] - gains[:, column]).mean() <= error(gains[:, best] - gains[:, column])
    ]
    return within[0]


@pytest.fixture
def several() -> list[Any]:
    """Gains of 40 questions for five candidates: most 0, others far from it; some with effect."""
    generator = np.random.default_rng(2)
    mixes = np.minimum(np.linspace(0, 1, 5), generator.choice([0.25, 0.5, 0.75, 1], (200, 1, 1)))
    changed = generator.random((200, 40, 1)) < 0.3
    sizes = 30 * generator.standard_t(3, (200, 40, 1)) + 10 * generator.random((200, 1, 1))
    return list(changed * (sizes * mixes + generator.normal(size=(200, 40, 5)) * mixes))


def test_the_rule_is_that_of_its_words(several: list[Any]) -> None:
    chosen = [choose_candidate(gains) for gains in several]
    assert chosen == [by_words(gains) for gains in several]
    assert set(chosen) == set(range(5))


@pytest.mark.parametrize("gains", [np.zeros((30, 5)), np.ones((1, 5)) * [0, 1, 2, 3, 4]])
def test_the_untouched_stays_without_effect_and_for_one_question(gains: Any) -> None:
    assert choose_candidate(gains) == 0


def test_one_question_that_changed_does_not_decide() -> None:
    for weight in (1e-3, 0.7, 100.0):
        gains = np.zeros((30, 5))
        gains[7] = weight * np.linspace(0, 1, 5)
        assert choose_candidate(gains) == 0


def test_each_question_is_counted_by_the_choice_of_other_groups(several: list[Any]) -> None:
    gains, groups = several[0], np.repeat(np.arange(20), 2)
    crossed = cross_fitted(gains, groups, seed=1)
    choices = crossed.choices()
    assert choices.shape == (20, 40)
    for folds, chosen in zip(crossed.folds, choices, strict=True):
        assert sorted(np.bincount(folds)) == [4] * 5
        for fold in range(5):
            own = folds[groups] == fold
            assert set(chosen[own]) == {by_words(gains[~own])}
    values = crossed.values(gains)
    assert values[3] == pytest.approx(np.mean([gains[3, choice] for choice in choices[:, 3]]))
    # Another metric is counted under the same choices.
    assert np.array_equal(crossed.values(np.tile(np.arange(5.0), (40, 1))), choices.mean(axis=0))


def test_the_interval_is_of_groups_and_choices(several: list[Any]) -> None:
    gains, groups = several[0], np.repeat(np.arange(20), 2)
    crossed = cross_fitted(gains, groups, seed=1)
    whole = crossed.interval(gains, 200, seed=1)
    assert whole.value == pytest.approx(crossed.values(gains).mean())
    assert whole.low is not None
    assert whole.high is not None
    assert whole.low <= whole.value <= whole.high
    assert whole == cross_fitted(gains, groups, seed=1).interval(gains, 200, seed=1)
    some = np.arange(40) < 10
    part = crossed.interval(gains, 200, seed=1, rows=some)
    assert part.value == pytest.approx(crossed.values(gains)[some].mean())


def test_few_groups_are_left_out_singly_and_one_is_refused() -> None:
    gains = np.zeros((6, 3))
    crossed = cross_fitted(gains, [4, 4, 4, 7, 7, 9], seed=0)
    assert all(sorted(folds) == [0, 1, 2] for folds in crossed.folds.tolist())
    with pytest.raises(ValueError, match="two groups"):
        cross_fitted(gains, [1] * 6, seed=0)


def test_questions_that_share_a_file_are_linked_also_by_others() -> None:
    golds = [{"a"}, {"b"}, {"a", "c"}, {"d"}, {"c"}, set()]
    groups = linked_groups(golds).tolist()
    assert groups[0] == groups[2] == groups[4]
    assert len({groups[place] for place in (0, 1, 3, 5)}) == 4
