"""Warnings of `judgements`: questions of one's own that name what is not there, or too much."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import ask
from tercet.tasks.evaluation.judgements import NOTES
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# Rows that are named.
_NAMED = 3


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """For each table the questions that are left out, or asked without all that answers them, and
    what `NOTES` says of others.
    """
    for name, one in work.config.sets.items():
        rejects = f"SELECT row_id, detail, reason FROM {made.sql('rejects')}"
        rejected = ask(work, f"{rejects} WHERE starts_with(detail, ?)", [f"{name}: row "])
        queries = f"SELECT DISTINCT query_id FROM {made.sql('judgements')} WHERE task = ?"
        queries_asked = {query for (query,) in ask(work, queries, [name])}
        # A row that cannot be read is a question of its own.
        rows = [row for row in rejected if row[2] != "unread"]
        total = len(
            {row_id if row_id is not None else detail for row_id, detail, _ in rows} | queries_asked
        )
        for kind in ("not_found", *NOTES):
            rows = [row for row in rejected if (row[2] if row[2] in NOTES else "not_found") == kind]
            if not rows:
                continue
            count = len({row_id if row_id is not None else detail for row_id, detail, _ in rows})
            count = total if kind == "unread" else count
            told = "; ".join(detail.removeprefix(f"{name}: ") for _, detail, _ in rows[:_NAMED])
            what = NOTES.get(kind, "are left out, or lack part of what answers them")
            message = f"{count:,} of {total:,} questions of {name} {what} "
            message += f"({told}{'; …' if len(rows) > _NAMED else ''})"
            remedy = f"correct these rows of {one.source}"
            yield StageWarning(kind, name, count, total, message, remedy)
