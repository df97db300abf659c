"""The columns of a table of rows that a loss reads."""

import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.losses.loss import Loss
from tercet.models.seeding import sample
from tercet.tasks.stage import BadInput


def shaped(rows: pa.Table, loss: Loss, max_rows: int | None, seed: int) -> pa.Table:
    """A seeded sample of the rows with the columns that the loss reads, in order of row_id.

    A label that is not known is NaN, and an optional text that a row lacks is null.

    Raises: BadInput where a label's column, or a text of some row, is missing.
    """
    rows = sample(rows.sort_by("row_id"), "row_id", max_rows, seed, "training rows")
    there = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    # A label column may be empty: no row may have a teacher.
    missing = [name for name in loss.texts if name not in there or rows[name].null_count]
    missing += [name for name in loss.labels if name not in rows.column_names]
    if missing:
        raise BadInput(
            f"train: the loss {loss.name} needs {' and '.join(missing)}, which not all of its rows "
            "have: take other rows or another loss."
        )
    kept = [name for columns in loss.columns_of(there).values() for name in columns]
    if "group" in rows.column_names:
        kept.append("group")
    columns = {name: rows[name] for name in ("row_id", *kept)}
    for name, kind in loss.labels.items():
        column = rows[name].cast(kind)
        columns[name] = pc.fill_null(column, float("nan")) if pa.types.is_floating(kind) else column
    return pa.table(columns).combine_chunks()
