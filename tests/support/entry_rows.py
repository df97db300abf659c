"""Definitions with entries whose vectors are drawn, for trainings against them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tercet.models.encoders.entry_space import create_space


def space(folder: Path, entries: int, width: int = 32) -> Path:
    """A space of this many entries."""
    ids = np.arange(entries)
    matrix = create_space(folder / "space", ids, [f"entry {i}" for i in ids], width)
    matrix[:] = np.random.default_rng(8).normal(size=matrix.shape)
    matrix.flush()  # type: ignore[attr-defined]
    return folder / "space"


def owned(rows: pa.Table, entries: int) -> pa.Table:
    """The rows with a column `entries`: every row has one, and every third one more."""
    lists = [[i % entries, (7 * i + 1) % entries][: 1 + (i % 3 == 0)] for i in range(rows.num_rows)]
    return rows.append_column("entries", pa.array(lists, pa.list_(pa.int32())))
