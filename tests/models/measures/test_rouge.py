"""ROUGE against scores worked out by hand."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tercet.models.measures.rouge import character_rouge, longest_common, rouge, words


def test_by_hand() -> None:
    # Shared words: the, cat, the, mat, 4 of 6 and of 6; bigrams: the cat, the mat, 2 of 5 and of 5.
    # Longest common subsequence: the cat the mat.
    found = rouge(words("The cat sat on the mat."), words("the cat lay under the mat"))
    assert found == pytest.approx((4 / 6, 2 / 5, 4 / 6))
    assert found.average == pytest.approx((4 / 6 + 2 / 5 + 4 / 6) / 3)


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


def test_characters_by_hand() -> None:
    # Distinct characters: a, b, c of three and a, b, d of three; pairs ab, bb, bc and ab, bd.
    found = character_rouge("ab bc", "a bd.")
    assert found.rouge1 == pytest.approx(2 / 3)
    assert found.rouge2 == pytest.approx(2 * 1 / (3 + 2))
    # The common subsequence is ab.
    assert found.rouge_l == pytest.approx(2 / 3)
    assert character_rouge("aaab", "ab").rouge1 == 1
    assert character_rouge("", "ab") == character_rouge(" . ", "ab") == (0, 0, 0)


@given(st.text("ab Bc.,", min_size=1, max_size=14), st.text("ab Bc.,", min_size=1, max_size=14))
def test_characters_as_the_package_counts_them(text: str, reference: str) -> None:
    package = pytest.importorskip("rouge")
    # It takes what is blank between two full stops for a word.
    text, reference = (re.sub(r"\.[\s.]*", ".", one).strip(". ") for one in (text, reference))
    assume(text and reference)
    (found,) = package.Rouge().get_scores(" ".join(text), " ".join(reference))
    theirs = [found[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")]
    assert character_rouge(text, reference) == pytest.approx(theirs, abs=1e-6)


def test_a_copy_has_the_papers_figures(shared_data: Path) -> None:
    """Table 2: 79.28 and 96.91 of models that only copy SICK's trial pairs above 3."""
    lines = (shared_data / "downstream/SICK/SICK_trial.txt").read_text("utf-8").splitlines()
    pairs = [line.split("\t")[1:3] for line in lines[1:] if float(line.split("\t")[3]) > 3]
    alike = [character_rouge(source, target).average for source, target in pairs]
    assert 100 * sum(alike) / len(pairs) == pytest.approx(79.28, abs=0.5)
    read = [words(source, cased=True) for source, _ in pairs]
    ratios = [len(set(one)) / len(one) for one in read]
    assert 100 * sum(ratios) / len(pairs) == pytest.approx(96.91, abs=0.7)
