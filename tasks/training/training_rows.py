"""Rows to train on: without contaminated texts, with the columns that a loss reads."""

import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.losses.loss import Loss
from tercet.models.seeding import sample
from tercet.tasks.stage import BadInput, Work


def drop_contaminated(work: Work, rows: pa.Table, slot: str, stage: str) -> pa.Table:
    """The rows without a contaminated text. slot: has the table `contamination`.

    Raises: BadInput if no row is left.
    """
    if slot not in work.inputs:
        return rows
    contamination = work.inputs[slot].table("contamination", ["text", "removed"])
    texts = contamination.filter(contamination["removed"])["text"].combine_chunks().unique()
    columns = [name for name in ("anchor", "positive", "negative") if name in rows.column_names]
    bad = pa.repeat(False, rows.num_rows)
    for name in columns:
        bad = pc.or_(bad, pc.is_in(rows[name], value_set=texts))
    kept = rows.filter(pc.invert(bad))
    if rows.num_rows and not kept.num_rows:
        raise BadInput(
            "no_rows",
            f"{stage}: the guard has removed all {rows.num_rows} rows, since each has a text of an "
            "evaluation set (SELECT level, task, count(*) FROM contamination GROUP BY ALL): train "
            "on other texts; or set guard.action to report, which trains on them and makes figures "
            "of these sets transductive: of texts that the encoder has seen. Higher thresholds "
            "(guard.embedding_min, guard.ngram) free no text of level exact or near.",
        )
    return kept


def shaped(rows: pa.Table, loss: Loss, max_rows: int | None, seed: int) -> pa.Table:
    """A seeded sample of the rows with the columns that the loss reads, sorted by row_id.

    An unknown label is NaN, and a missing optional text is null.

    Raises: BadInput if a label's column is missing, or a row lacks a text.
    """
    rows = sample(rows.sort_by("row_id"), "row_id", max_rows, seed, "training rows")
    filled = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    # A label's column may be empty, since rows need not have a teacher.
    missing = [name for name in loss.texts if name not in filled or rows[name].null_count]
    missing += [name for name in loss.labels if name not in rows.column_names]
    if missing:
        raise BadInput(
            "no_rows",
            f"train: the loss {loss.name} needs {' and '.join(missing)}, which not all of its rows "
            "have: take other rows or another loss.",
        )
    kept = [name for columns in loss.columns_of(filled).values() for name in columns]
    if "group" in rows.column_names:
        kept.append("group")
    columns = {name: rows[name] for name in ("row_id", *kept)}
    for name, kind in loss.labels.items():
        column = rows[name].cast(kind)
        columns[name] = pc.fill_null(column, float("nan")) if pa.types.is_floating(kind) else column
    return pa.table(columns).combine_chunks()
