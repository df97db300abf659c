"""Runs of equal rows in sorted columns, ranges of places, and pieces of bounded size."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
Places: TypeAlias = npt.NDArray[np.int64]


def begins(*columns: Column) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the one before it, as the first does. Shape (rows,)."""
    new = np.ones(len(columns[0]), dtype=np.bool_)
    new[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    return new


def repeats(column: Column) -> npt.NDArray[np.bool_]:
    """Whether each row of a sorted column is one of several that are equal. Shape (rows,)."""
    new = begins(column)
    return np.asarray(~(new & np.append(new[1:], True)[: len(new)]))


def distinct(major: Column, minor: Column) -> Places:
    """The places of the distinct pairs, by major and then minor; of equal ones the first."""
    order = np.lexsort((minor, major))
    return order[begins(major[order], minor[order])]


def ranges(starts: Places, sizes: Places) -> Places:
    """The numbers from each start on, one range behind another. Shape (sum of sizes,)."""
    inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts, sizes) + inside, dtype=np.int64)


def pieces(sizes: Places, most: int) -> Iterator[slice]:
    """Slices of neighbouring items whose sizes add up to at most `most`, or that are one item."""
    reach = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        used = int(reach[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(reach, used + most, side="right")))
        yield slice(low, high)
        low = high
