"""Which rows make a batch, and word repetition."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tercet.models import seeding
from tercet.models.training.batches import WINDOW, LengthWindows, repeat_words


def rows(anchors: list[str], positives: list[str]) -> pa.Table:
    ids = pa.array(seeding.text_ids(anchors), pa.uint64())
    return pa.table({"row_id": ids, "anchor": anchors, "positive": positives}).sort_by("row_id")


def of_lengths(n: int) -> pa.Table:
    draw = np.random.default_rng(1)
    texts = [f"{i:05d}" + "x" * int(draw.integers(1, 300)) for i in range(n)]
    return rows(texts, texts)


def test_every_row_once_in_full_batches_but_the_last() -> None:
    sampler = LengthWindows(of_lengths(1003), 10, 3, "t")
    batches = list(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(1003))
    assert Counter(map(len, batches)) == {10: 100, 3: 1}
    assert len(sampler) == len(batches)


def test_batches_hold_rows_of_like_length() -> None:
    table = of_lengths(WINDOW * 20)
    lengths = np.array([len(text) for text in table["anchor"].to_pylist()])
    spreads = [np.ptp(lengths[batch]) for batch in LengthWindows(table, 20, 3, "t")]
    assert np.mean(spreads) < 20  # of 300


def test_epochs_differ_and_each_is_the_same_again() -> None:
    table = of_lengths(400)

    def epoch(number: int, seed: int = 3) -> list[list[int]]:
        sampler = LengthWindows(table, 10, seed, "t")
        sampler.set_epoch(number)
        return list(sampler)

    def members(batches: list[list[int]]) -> set[frozenset[int]]:
        return set(map(frozenset, batches))

    assert epoch(0) == epoch(0)
    assert len(members(epoch(0)) & members(epoch(1))) < 4  # of 40, not only in another order
    assert [list(b) for b in epoch(0)] != sorted(epoch(0))
    assert epoch(0) != epoch(0, seed=4)


def test_no_text_is_twice_in_a_batch_where_it_can_be_avoided() -> None:
    anchors = [f"anchor {i}" for i in range(40)]
    sampler = LengthWindows(rows(anchors, [f"shared {i % 20}" for i in range(40)]), 4, 0, "t")
    positives = sampler._texts[:, 1]
    assert all(len(set(positives[batch].tolist())) == 4 for batch in sampler)


def test_rows_that_all_share_a_text_are_still_trained_on() -> None:
    sampler = LengthWindows(rows([f"a{i}" for i in range(20)], ["same"] * 20), 8, 0, "t")
    assert [len(batch) for batch in sorted(sampler, key=len)] == [4, 8, 8]


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_repetition_says_some_words_twice(epoch: int) -> None:
    text = "the sum of all values along one axis is what it returns"
    said = repeat_words(text, 5, 99, epoch).split()
    undoubled = [w for i, w in enumerate(said) if i == 0 or w != said[i - 1]]
    assert undoubled == text.split()
    assert 1 <= len(said) - 12 <= 3  # of 12 words up to floor(0.3 * 11)
    assert said == repeat_words(text, 5, 99, epoch).split()


def test_repetition_differs_by_row_and_epoch() -> None:
    text = " ".join(f"w{i}" for i in range(40))
    said = {repeat_words(text, 5, row, epoch) for row in range(5) for epoch in range(5)}
    assert len(said) == 25
    assert repeat_words("", 5, 1, 0) == ""
    assert repeat_words("one", 5, 1, 0) == "one one"
