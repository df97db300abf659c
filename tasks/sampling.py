"""Samples of rows, drawn by seed."""

import numpy as np
import pyarrow as pa

from tercet.models import seeding


def sample(rows: pa.Table, key: str, most: int | None, seed: int, purpose: str) -> pa.Table:
    """At most so many of the rows (None: all), in their order, drawn by the ids in a column."""
    if most is None or rows.num_rows <= most:
        return rows
    draws = seeding.draws(seed, purpose, rows[key].to_numpy())
    return rows.take(pa.array(np.sort(np.argsort(draws, kind="stable")[:most])))
