"""What is said of evaluation texts that the guard leaves in training."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.storage.rows import rows_of
from tercet.tasks import guarding
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import train_warnings


@pytest.fixture
def found(tmp_path: Path) -> Any:
    """Kind, count and message of warnings of a guard that found one text in each of these tasks."""

    def _found(action: str, tasks: list[str]) -> list[tuple[str, int, str]]:
        config = guarding.GuardConfig.model_validate(
            {"suite": Path(), "tasks": (), "action": action}
        )
        rows = [{"text_id": number // 2, "task": task} for number, task in enumerate(tasks)]
        schema = pa.schema([("text_id", pa.uint64()), ("task", pa.string())])
        pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "found.parquet")
        work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None)
        made = rows_of({"contamination": [tmp_path / "found.parquet"]})
        warnings = train_warnings.find_transductive(work, made, [])
        return [(one.kind, one.count, one.message) for one in warnings]

    return _found


def test_what_stays_in_training_makes_figures_transductive(found: Any) -> None:
    ((kind, count, message),) = found("report", ["STS-B", "STS14", "STS14"])
    assert (kind, count) == ("transductive", 2)
    assert "STS14 2, STS-B 1" in message
    ((*_, message),) = found("report", ["a", "b", "c", "d", "e", "f"])
    assert "2 more" in message


def test_what_is_removed_or_was_not_found_is_no_such_text(found: Any) -> None:
    assert found("remove", ["STS-B"]) == []
    assert found("report", []) == []
