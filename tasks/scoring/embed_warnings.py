"""Warnings of `embed`: candidates that are longer than the evaluator reads."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.cut_texts import find_cut
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if too many candidates are cut, whose ends then count for nothing."""
    candidates, longest = work.inputs["candidates"].sql("candidates"), work.config.max_length
    which = "candidates that the evaluator compares"
    yield from find_cut(work, "candidates", ("text",), candidates, longest, which, "embed")
