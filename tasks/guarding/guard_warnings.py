"""Warnings of `guard`: texts of evaluation sets that stay in training."""

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc
from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# Sets named in the sentence.
_NAMED = 4


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if the guard found such texts and removes none."""
    if work.config.action != "report":
        return
    found = made.table("contamination", ["text_id", "task"])
    if not found.num_rows:
        return
    counts = sorted(found["task"].value_counts().to_pylist(), key=lambda one: -one["counts"])
    named = ", ".join(f"{one['values']} {one['counts']:,}" for one in counts[:_NAMED])
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    texts = pc.count_distinct(found["text_id"]).as_py()
    said = "1 training text stands" if texts == 1 else f"{texts:,} training texts stand"
    trained = "is" if texts == 1 else "are"
    said += f" in evaluation sets ({named}{more}) and {trained} trained on, since guard.action is "
    said += "report"
    remedy = (
        "figures of these sets are transductive, and do not show how the encoder does on new texts"
    )
    yield StageWarning("transductive", None, texts, texts, said, remedy)
