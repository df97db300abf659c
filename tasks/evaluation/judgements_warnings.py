"""Warnings of `judgements`: questions of one's own that name what is not there."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import ask
from tercet.tasks.corpus.sources.streams import conversion
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# Rows that are named.
_NAMED = 3


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """For each table the questions that are left out, or asked without all that answers them."""
    for name, one in work.config.sets.items():
        rejects = f"SELECT row_id, detail, reason FROM {made.sql('rejects')}"
        lost = ask(work, f"{rejects} WHERE starts_with(detail, ?)", [f"{name}: row "])
        queries = f"SELECT DISTINCT query_id FROM {made.sql('judgements')} WHERE task = ?"
        asked = ask(work, queries, [name])
        if not lost:
            continue
        # A row that cannot be read is a question of its own.
        questions = {row_id if row_id is not None else detail for row_id, detail, _ in lost}
        total = len(questions | {query for (query,) in asked})
        told = "; ".join(detail.removeprefix(f"{name}: ") for _, detail, _ in lost[:_NAMED])
        said = f"{len(questions):,} of {total:,} questions of {name} are left out, or lack part "
        said += f"of what answers them ({told}{'; …' if len(lost) > _NAMED else ''})"
        remedy = f"correct these rows of {one.source}"
        if any(reason == "not_utf8" for *_, reason in lost):
            remedy += f"; if it is Latin-1: {conversion(one.source)}"
        yield StageWarning("not_found", name, len(questions), total, said, remedy)
