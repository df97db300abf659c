"""Removes rows whose texts the guard has found in an evaluation set."""

import pyarrow as pa
import pyarrow.compute as pc

from tercet.tasks.stage import BadInput, Work


def drop_contaminated(work: Work, rows: pa.Table, slot: str, stage: str) -> pa.Table:
    """The rows without a contaminated text. slot: has the table `contamination`.

    Raises: BadInput if no row is left.
    """
    if slot not in work.inputs:
        return rows
    found = work.inputs[slot].table("contamination", ["text", "removed"])
    texts = found.filter(found["removed"])["text"].combine_chunks().unique()
    columns = [name for name in ("anchor", "positive", "negative") if name in rows.column_names]
    bad = pa.repeat(False, rows.num_rows)
    for name in columns:
        bad = pc.or_(bad, pc.is_in(rows[name], value_set=texts))
    kept = rows.filter(pc.invert(bad))
    if rows.num_rows and not kept.num_rows:
        raise BadInput(
            f"{stage}: the guard has removed all {rows.num_rows} rows, since each has a text of an "
            "evaluation set (SELECT level, task, count(*) FROM contamination GROUP BY ALL): train "
            "on other texts; or set guard.action to report, which trains on them and makes figures "
            "of these sets transductive: of texts that the encoder has seen. Higher thresholds "
            "(guard.embedding_min, guard.ngram) free no text of level exact or near."
        )
    return kept
