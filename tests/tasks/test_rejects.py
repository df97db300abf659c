"""A row that breaks our own code is refused, and the others go on."""

from typing import Any

import numpy as np
import pytest

from tercet.storage.store import FullDisk
from tercet.tasks.rejects import MOST, isolated


def halves(count: int, broken: set[int]) -> tuple[list[int], dict[int, str]]:
    faults: dict[int, str] = {}

    def make(rows: Any) -> list[int]:
        for row in rows.tolist():
            if row in broken:
                raise KeyError(f"row {row}")
        return list(rows.tolist())

    made = isolated(
        np.arange(count), make, lambda row, error: faults.update({int(row): str(error)})
    )
    return [row for rows in made for row in rows], faults


@pytest.mark.parametrize("broken", [set(), {0}, {99}, {3, 4}, {0, 17, 50, 99}, set(range(40, 60))])
def test_only_the_broken_rows_are_missing_and_order_is_kept(broken: set[int]) -> None:
    made, faults = halves(100, broken)
    assert made == [row for row in range(100) if row not in broken]
    assert set(faults) == broken
    assert all(str(row) in told for row, told in faults.items())


def test_a_fault_of_all_rows_is_raised() -> None:
    with pytest.raises(KeyError):
        halves(MOST + 50, set(range(MOST + 50)))


def test_what_is_no_matter_of_rows_is_raised_at_once() -> None:
    calls = []

    def make(rows: Any) -> None:
        calls.append(len(rows))
        raise FullDisk("no_space", "No space is left.")

    with pytest.raises(FullDisk):
        list(isolated(np.arange(64), make, lambda row, error: None))
    assert calls == [64]
