"""What is said of evaluation texts that the guard leaves in training."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tercet.flows.pipeline.step import Step
from tercet.flows.running.guarded_rows import warning
from tercet.tasks.guarding import guard


def said(action: str, tasks: list[str]) -> str | None:
    """The warning after a guard that found one text in each of these tasks."""
    config = guard.GuardConfig.model_validate({"suite": Path(), "tasks": (), "action": action})
    step = Step("guard.sentences", guard.SENTENCES, config, {}, {})
    rows = [{"text_id": number // 2, "task": task} for number, task in enumerate(tasks)]
    table = pa.Table.from_pylist(rows, pa.schema([("text_id", pa.uint64()), ("task", pa.string())]))
    made: Any = SimpleNamespace(rows=lambda: SimpleNamespace(table=lambda name, columns: table))
    return warning(step, made)


def test_what_stays_in_training_makes_figures_transductive() -> None:
    assert said("report", ["STS-B", "STS14", "STS14"]) == (
        "guard.sentences: 2 training texts stand in evaluation sets (STS14 2, STS-B 1) and are "
        "trained on, since guard.action is report: figures of these sets are transductive, and do "
        "not show how the encoder does on new texts."
    )
    many = said("report", ["a", "b", "c", "d", "e", "f"])
    assert many is not None
    assert "and 2 more)" in many


def test_what_is_removed_or_was_not_found_is_no_such_text() -> None:
    assert said("remove", ["STS-B"]) is None
    assert said("report", []) is None
