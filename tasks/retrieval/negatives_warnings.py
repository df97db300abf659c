"""Warnings of `negatives`: rows that found fewer than they were to have."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import connection
from tercet.tasks.retrieval.negatives import count_rows
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# A share of the rows.
FEW = 0.05


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if too many rows have fewer than `negatives.k`."""
    total, k = count_rows(work), work.config.k
    with connection(work) as db:
        whole, some = db.execute(
            f"""SELECT count(*) FILTER (n = {k}), count(*) FROM
                (SELECT count(*) AS n FROM {made.sql("negatives")} GROUP BY triplet_id)"""
        ).fetchall()[0]
    if total and total - whole >= FEW * total:
        said = f"{total - whole:,} of {total:,} rows have fewer than {k} negatives, of which "
        said += f"{total - some:,} have none"
        remedy = "lower negatives.margin or negatives.k"
        yield StageWarning("few_negatives", work.config.source, total - whole, total, said, remedy)
