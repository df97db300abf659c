"""What is told of encoders that read less than a passage."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import rows_of
from tercet.tasks.corpus import passages_warnings
from tercet.tasks.corpus.passages import PassagesConfig
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.train import TrainConfig
from tercet.tasks.warning import sentence


def said(tmp_path: Path, trained: int, measured: int | None) -> list[str]:
    path = tmp_path / "passages.parquet"
    rows = {
        "text": ["Short.", "Long.", "Longer."],
        "n_tokens": pa.array([20, 150, 190], pa.int32()),
    }
    pq.write_table(pa.table(rows), path)
    corpora = [{"name": "c", "source": "a.md"}]
    config = PassagesConfig.model_validate({"corpora": corpora, "max_line_bytes": 100})
    work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None, "passages")
    configs: list[Any] = [
        TrainConfig.model_validate({"phase": {"max_length": trained}}),
        EvaluateConfig(max_length=measured),
    ]
    found = passages_warnings.find(work, rows_of({"passages": [path]}), configs)
    return [sentence({"step": "passages", **asdict(one)}) for one in found]


def test_a_max_length_below_the_budget_is_told(tmp_path: Path) -> None:
    assert said(tmp_path, 128, None) == [
        "passages: train.max_length is 128, and a passage has up to 200 tokens (2 of 3 have more), "
        "such as 'Long.': raise train.max_length, or lower ingest.passages.tokens."
    ]
    assert [one[:41] for one in said(tmp_path, 200, 199)] == [
        "passages: evaluate.max_length is 199, and"
    ]
    assert said(tmp_path, 200, 256) == []
