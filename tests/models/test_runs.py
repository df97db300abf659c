"""Runs, ranges and pieces of columns."""

import numpy as np

from tercet.models.runs import begins, distinct, pieces, ranges, repeats


def test_runs_of_a_column() -> None:
    column = np.array([3, 3, 5, 7, 7, 7])
    assert begins(column).tolist() == [True, False, True, True, False, False]
    assert repeats(column).tolist() == [True, True, False, True, True, True]
    other = np.array([1, 2, 2, 2, 2, 3])
    assert begins(column, other).tolist() == [True, True, True, True, False, True]
    for nothing in (begins(column[:0]), repeats(column[:0])):
        assert nothing.tolist() == []


def test_distinct_pairs_come_in_order_and_the_first_of_equal_ones() -> None:
    major, minor = np.array([2, 1, 2, 1]), np.array([5, 9, 5, 8])
    assert distinct(major, minor).tolist() == [3, 1, 0]


def test_ranges_and_pieces() -> None:
    assert ranges(np.array([4, 9, 0]), np.array([2, 0, 3])).tolist() == [4, 5, 0, 1, 2]
    sizes = np.array([2, 2, 9, 1, 1, 1])
    assert [sizes[piece].tolist() for piece in pieces(sizes, 4)] == [[2, 2], [9], [1, 1, 1]]
