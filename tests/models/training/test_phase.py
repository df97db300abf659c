"""How a batch is shared out among the parts of a phase."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.losses.registry import InBatch
from tercet.models.training.phase import Hyperparameters, PartRows, epoch_steps, part_sizes


def test_a_lone_part_takes_the_whole_batch() -> None:
    assert part_sizes(64, [10], [None]) == part_sizes(64, [10], [0.3]) == (64,)


def test_shares_are_relative_and_rows_stand_for_them() -> None:
    assert part_sizes(64, [1, 1], [0.7, 0.3]) == (45, 19)
    assert part_sizes(64, [1, 1], [7.0, 3.0]) == (45, 19)
    assert part_sizes(64, [300, 100], [None, None]) == (48, 16)


def test_every_part_has_two_rows_in_each_batch() -> None:
    assert part_sizes(64, [100_000, 3, 1], [None] * 3) == (60, 2, 2)
    assert part_sizes(6, [100_000, 3, 1], [None] * 3) == (2, 2, 2)
    for batch_size, share in ((5, None), (64, 0.5)):
        with pytest.raises(ValueError, match=r"batch_size|share"):
            part_sizes(batch_size, [1, 1, 1], [None, None, share])


@given(
    batch=st.integers(8, 500),
    rows=st.lists(st.integers(1, 10**9), min_size=1, max_size=4),
    shares=st.lists(st.floats(0.001, 1.0), min_size=4, max_size=4),
    by_rows=st.booleans(),
)
def test_sizes_add_up_and_lie_near_their_shares(
    batch: int, rows: list[int], shares: list[float], by_rows: bool
) -> None:
    own = shares[: len(rows)]
    sizes = part_sizes(batch, rows, [None] * len(rows) if by_rows else own)
    assert sum(sizes) == batch
    wanted = [float(n) for n in rows] if by_rows else own
    for size, value in zip(sizes, wanted, strict=True):
        exact = batch * value / sum(wanted)
        # What the least sizes take comes off the others.
        assert exact - 2 * len(rows) - 1 <= size <= max(2, exact + 1)


def test_an_epoch_lasts_as_long_as_the_part_that_needs_most() -> None:
    assert epoch_steps((6, 2), (84, 42)) == 21
    assert epoch_steps((8,), (84,)) == 11


def test_a_group_counts_once() -> None:
    rows = pa.table({"row_id": pa.array(range(5), pa.uint64())})
    groups = pa.array([7, 7, 9, 7, 1], pa.uint64())
    assert PartRows("a", rows, "info_nce", InBatch()).count() == 5
    grouped = rows.append_column("group", groups)
    assert PartRows("a", grouped, "info_nce", InBatch()).count() == 3


def test_steps() -> None:
    assert Hyperparameters(epochs=1.5).steps(11) == 17
    assert Hyperparameters(epochs=0.01).steps(11) == 1
    assert Hyperparameters(epochs=3, max_steps=5).steps(11) == 5
