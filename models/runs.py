"""Runs of equal rows in sorted columns, ranges of places, and pieces of bounded size."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
Places: TypeAlias = npt.NDArray[np.int64]


def begins(*columns: Column) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the row before it; True for the first. Shape (rows,)."""
    new = np.ones(len(columns[0]), dtype=np.bool_)
    new[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    return new


def repeats(column: Column) -> npt.NDArray[np.bool_]:
    """Whether each row of a sorted column equals one of its neighbours. Shape (rows,)."""
    new = begins(column)
    return np.asarray(~(new & np.append(new[1:], True)[: len(new)]))


def distinct(major: Column, minor: Column) -> Places:
    """Row numbers of the distinct pairs, sorted by major, then minor; the first of equal pairs."""
    order = np.lexsort((minor, major))
    return order[begins(major[order], minor[order])]


def ranges(starts: Places, sizes: Places) -> Places:
    """`size` consecutive numbers from each start, concatenated. Shape (sum of sizes,)."""
    return np.asarray(np.repeat(starts, sizes) + places_within(sizes), dtype=np.int64)


def places_within(sizes: Places) -> Places:
    """The numbers 0 to size - 1 for each size, concatenated. Shape (sum of sizes,)."""
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def pieces(sizes: Places, most: int) -> Iterator[slice]:
    """Slices of neighbouring items whose sizes sum to at most `most`; a larger item is alone."""
    reach = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        used = int(reach[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(reach, used + most, side="right")))
        yield slice(low, high)
        low = high
