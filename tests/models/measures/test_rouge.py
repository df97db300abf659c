"""ROUGE against scores worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.measures.rouge import longest_common, rouge, words


def test_by_hand() -> None:
    # Shared words: the, cat, the, mat, 4 of 6 and of 6; bigrams: the cat, the mat, 2 of 5 and of 5.
    # Longest common subsequence: the cat the mat.
    found = rouge(words("The cat sat on the mat."), words("the cat lay under the mat"))
    assert found == pytest.approx((4 / 6, 2 / 5, 4 / 6))
    assert found.average == pytest.approx((4 / 6 + 2 / 5 + 4 / 6) / 3)


def test_f1_of_texts_of_unlike_length() -> None:
    # One shared word of 1 and of 3: precision 1, recall 1/3, F1 1/2; no bigram on one side.
    assert rouge(["a"], ["a", "b", "c"]) == pytest.approx((0.5, 0.0, 0.5))


def test_a_word_counts_as_often_as_both_have_it() -> None:
    assert rouge(["a", "a", "a"], ["a", "b"]).rouge1 == pytest.approx(2 * 1 / 5)


def test_order_counts_in_the_subsequence_alone() -> None:
    found = rouge(["c", "b", "a"], ["a", "b", "c"])
    assert found == pytest.approx((1.0, 0.0, 1 / 3))


def test_nothing_said_scores_nothing() -> None:
    assert rouge([], ["a"]) == (0, 0, 0)
    assert rouge([], []) == (0, 0, 0)


def test_words_of_any_script_without_marks() -> None:
    assert words("Größe_2: don't, 数学") == ["größe", "2", "don", "t", "数学"]


def slow_common(first: list[str], second: list[str]) -> int:
    if not first or not second:
        return 0
    if first[0] == second[0]:
        return 1 + slow_common(first[1:], second[1:])
    return max(slow_common(first[1:], second), slow_common(first, second[1:]))


short = st.lists(st.sampled_from("abc"), max_size=6)


@given(short, short)
def test_the_longest_common_subsequence_by_its_definition(
    first: list[str], second: list[str]
) -> None:
    assert longest_common(first, second) == slow_common(first, second)
