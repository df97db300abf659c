"""What is said of evaluation texts that the guard leaves in training."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.storage.rows import rows_of
from tercet.tasks.guarding import guard, guard_warnings
from tercet.tasks.stage import Resources, Work
from tercet.tasks.warning import sentence


@pytest.fixture
def said(tmp_path: Path) -> Any:
    """What is told after a guard that found one text in each of these tasks."""

    def _said(action: str, tasks: list[str]) -> list[str]:
        config = guard.GuardConfig.model_validate({"suite": Path(), "tasks": (), "action": action})
        rows = [{"text_id": number // 2, "task": task} for number, task in enumerate(tasks)]
        schema = pa.schema([("text_id", pa.uint64()), ("task", pa.string())])
        pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "found.parquet")
        work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None)
        made = rows_of({"contamination": [tmp_path / "found.parquet"]})
        found = guard_warnings.find(work, made, [])
        return [sentence({"step": "guard.sentences", **asdict(one)}) for one in found]

    return _said


def test_what_stays_in_training_makes_figures_transductive(said: Any) -> None:
    assert said("report", ["STS-B", "STS14", "STS14"]) == [
        "guard.sentences: 2 training texts stand in evaluation sets (STS14 2, STS-B 1) and are "
        "trained on, since guard.action is report: figures of these sets are transductive, and do "
        "not show how the encoder does on new texts."
    ]
    (many,) = said("report", ["a", "b", "c", "d", "e", "f"])
    assert "and 2 more)" in many


def test_what_is_removed_or_was_not_found_is_no_such_text(said: Any) -> None:
    assert said("remove", ["STS-B"]) == []
    assert said("report", []) == []
