"""Words repeated by seeded draws."""

import numpy as np
import pytest

from tercet.models.text.word_noise import repeated, sentences_of, words_of


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
