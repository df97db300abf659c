"""The table `training_log`, of every stage that trains."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

TRAINING_LOG = pa.schema(
    [
        ("phase", pa.string()),
        ("step", pa.int32()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("terms", pa.map_(pa.string(), pa.float64())),
        ("learning_rate", pa.float64()),
        ("rows_per_second", pa.float64()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev_value", pa.float64()),
        ("chosen", pa.bool_()),
    ],
    # Columns of the table's view: what the losses gaussian_decay and strict report; of several
    # parts, the first that does.
    {
        name: "(list_filter(map_entries(terms), lambda e: "
        f"e.key = '{name}' OR ends_with(e.key, '.{name}')))[1].value"
        for name in (
            *("gate_opening", "gradient_share", "student_negative", "teacher_negative"),
            "in_order",
        )
    },
)


def log_table(rows: Sequence[dict[str, Any]], phase: str, seed: int) -> pa.Table:
    """Rows of the loop's log as the table has them."""
    full = [
        # As a map column takes them.
        {**row, "phase": phase, "seed": seed, "terms": sorted((row["terms"] or {}).items())}
        for row in rows
    ]
    return pa.Table.from_pylist(full, schema=TRAINING_LOG)
