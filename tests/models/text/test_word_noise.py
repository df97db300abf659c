"""Words repeated by seeded draws."""

import numpy as np
import pytest

from tercet.models.text.word_noise import repeated, repeated_few, sentences_of, words_of


def repetition(text: str, row_id: int, epoch: int) -> list[str]:
    words = words_of(np.array([row_id], dtype=np.uint64), [text.split()])
    return sentences_of(repeated(words, 5, epoch))[0]


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_repetition_says_some_words_twice(epoch: int) -> None:
    text = "the sum of all values along one axis is what it returns"
    words = repetition(text, 99, epoch)
    undoubled = [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]]
    assert undoubled == text.split()
    assert 1 <= len(words) - 12 <= 3  # of 12 words up to floor(0.3 * 11)
    assert words == repetition(text, 99, epoch)


def test_repetition_differs_by_row_and_round_() -> None:
    text = " ".join(f"w{i}" for i in range(40))
    texts = {" ".join(repetition(text, row, epoch)) for row in range(5) for epoch in range(5)}
    assert len(texts) == 25
    assert repetition("one", 1, 0) == ["one", "one"]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(1, {0}), (2, {0, 1}), (12, {0, 1}), (59, {0, 1}), (79, {0, 1, 2}), (300, set(range(10)))],
)
def test_a_few_words_are_repeated_as_in_the_code_of_gcse(words: int, numbers: set[int]) -> None:
    """randrange(min(10, n, max(2, int(0.05 n)))) words, by 0.5 on average below sixty, and never
    the last.
    """
    texts = [[f"w{place}" for place in range(words)]] * 2_000
    source = words_of(np.arange(2_000, dtype=np.uint64), texts)
    changed = sentences_of(repeated_few(source, 5, 3))
    assert changed == sentences_of(repeated_few(source, 5, 3))
    assert changed != sentences_of(repeated_few(source, 5, 4)) or words == 1
    added = [len(one) - words for one in changed]
    assert set(added) == numbers
    shares = [added.count(number) / 2_000 for number in sorted(numbers)]
    assert shares == pytest.approx([1 / len(numbers)] * len(numbers), abs=0.04)
    for one in changed:
        assert list(dict.fromkeys(one)) == texts[0]
        assert one.count(texts[0][-1]) == 1
