"""Which rows make a batch, and word repetition."""

from collections import Counter

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.training.batches import WINDOW, LengthWindows, one_of_each

TEXTS = ("anchor", "positive")


def rows(anchors: list[str], positives: list[str]) -> pa.Table:
    ids = pa.array(seeding.text_ids(anchors), pa.uint64())
    return pa.table({"row_id": ids, "anchor": anchors, "positive": positives}).sort_by("row_id")


def of_lengths(n: int) -> pa.Table:
    draw = np.random.default_rng(1)
    texts = [f"{i:05d}" + "x" * int(draw.integers(1, 300)) for i in range(n)]
    return rows(texts, texts)


def test_every_row_once_in_full_batches_but_the_last() -> None:
    batches = LengthWindows(of_lengths(1003), TEXTS, 10, 3, "t").round(0)
    assert sorted(i for batch in batches for i in batch) == list(range(1003))
    assert Counter(map(len, batches)) == {10: 100, 3: 1}


def test_batches_hold_rows_of_like_length() -> None:
    table = of_lengths(WINDOW * 20)
    lengths = np.array([len(text) for text in table["anchor"].to_pylist()])
    batches = LengthWindows(table, TEXTS, 20, 3, "t").round(0)
    spreads = [np.ptp(lengths[batch]) for batch in batches]
    assert np.mean(spreads) < 20  # of 300


def test_rounds_differ_and_each_is_the_same_again() -> None:
    table = of_lengths(400)

    def round_(number: int, seed: int = 3) -> list[list[int]]:
        return LengthWindows(table, TEXTS, 10, seed, "t").round(number)

    def members(batches: list[list[int]]) -> set[frozenset[int]]:
        return set(map(frozenset, batches))

    assert round_(0) == round_(0)
    assert len(members(round_(0)) & members(round_(1))) < 4  # of 40, not only in another order
    assert round_(0) != sorted(round_(0))
    assert round_(0) != round_(0, seed=4)


def test_no_text_is_twice_in_a_batch_where_it_can_be_avoided() -> None:
    anchors = [f"anchor {i}" for i in range(40)]
    table = rows(anchors, [f"shared {i % 20}" for i in range(40)])
    positives = np.array(table["positive"].to_pylist())
    batches = LengthWindows(table, TEXTS, 4, 0, "t").round(0)
    assert all(len(set(positives[batch].tolist())) == 4 for batch in batches)


def test_rows_that_all_share_a_text_are_still_trained_on() -> None:
    table = rows([f"a{i}" for i in range(20)], ["same"] * 20)
    batches = LengthWindows(table, TEXTS, 8, 0, "t").round(0)
    assert [len(batch) for batch in sorted(batches, key=len)] == [4, 8, 8]


def test_a_round_of_some_rows_has_these_alone() -> None:
    table = of_lengths(100)
    some = np.array([3, 5, 8, 13, 21, 34, 55, 89])
    batches = LengthWindows(table, TEXTS, 3, 0, "t").round(0, some)
    assert sorted(i for batch in batches for i in batch) == some.tolist()
    assert sorted(map(len, batches)) == [2, 3, 3]
    every = LengthWindows(table, TEXTS, 3, 0, "t")
    assert every.round(4, np.arange(100)) == every.round(4)


def test_one_row_of_each_group_drawn_afresh() -> None:
    ids = seeding.text_ids([str(i) for i in range(3_000)])
    groups = np.arange(3_000, dtype=np.uint64) // np.uint64(3)
    drawn = [one_of_each(groups, ids, 1, "t", number) for number in range(2)]
    for rows_ in drawn:
        assert groups[rows_].tolist() == list(range(1_000))
        # Each of the three is as likely as the others.
        places = np.bincount(rows_ % 3)
        assert places.min() > 280
    assert 550 < int((drawn[0] != drawn[1]).sum()) < 780  # two of three
    # Where the rows lie does not matter.
    order = np.random.default_rng(0).permutation(3_000)
    moved = one_of_each(groups[order], ids[order], 1, "t", 0)
    assert set(order[moved].tolist()) == set(drawn[0].tolist())


def test_a_text_that_a_row_lacks_repeats_nothing() -> None:
    table = rows([f"anchor {i}" for i in range(12)], [f"positive {i}" for i in range(12)])
    table = table.append_column("negative", pa.array([None] * 10 + ["one", "two"], pa.string()))
    batches = LengthWindows(table, (*TEXTS, "negative"), 6, 0, "t").round(0)
    assert [len(batch) for batch in batches] == [6, 6]
