"""The warning before a training on few rows, over the rows of stages that stand in files."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.flows.pipeline.step import Step
from tercet.flows.running.few_rows import warning
from tercet.storage.rows import rows_of
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.training import train
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train import TrainConfig


def told(
    tmp_path: Path, phase: dict[str, Any], tables: dict[str, dict[str, Any]], **select: Any
) -> str | None:
    """What is said of a phase whose rows come from these tables of one earlier step."""
    files = {name: [tmp_path / f"{name}.parquet"] for name in tables}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), files[name][0])
    settings = SelectConfig.model_validate(select).model_dump(mode="json")
    artifact: Any = SimpleNamespace(
        rows=lambda: rows_of(files), manifest=lambda: {"components": {"config": settings}}
    )
    config = TrainConfig(phase=PhaseConfig.model_validate(phase))
    slots = {"triplets": ("select",), "labelled": ("labelled",)}
    return warning(Step("train", train.STAGE, config, slots), lambda name: artifact)


def triplets(*negatives: str | None) -> dict[str, Any]:
    count = len(negatives)
    return {
        "sentence_id": pa.array(range(count), pa.uint64()),
        "relation": ["topic"] * count,
        "negative": pa.array(negatives, pa.string()),
    }


def test_rows_without_a_negative_do_not_count_for_a_loss_that_needs_one(tmp_path: Path) -> None:
    tables = {"triplets": triplets("a", *[None] * 100), "rejects": {"reason": ["surplus"]}}
    phase = {"name": "both", "batch_size": 8, "loss": "gaussian_decay"}
    said = told(tmp_path, phase, tables)
    assert said is not None
    assert said.startswith("train: there are only 1 triplets to train 'both'")
    assert told(tmp_path, {**phase, "loss": "in_batch"}, tables) is None


def test_the_threshold_to_change_is_the_one_that_counts(tmp_path: Path) -> None:
    tables = {"triplets": triplets("a"), "rejects": {"reason": ["below_positive_min"] * 3}}
    phase = {"batch_size": 8}
    said = told(tmp_path, phase, tables, relations={"topic": {"positive_min": 0.2}})
    assert said is not None
    assert "select.relations.topic.positive_min" in said
    said = told(tmp_path, phase, tables)
    assert said is not None
    assert "lower select.positive_min" in said


def test_rows_of_a_dictionary_are_not_sampled(tmp_path: Path) -> None:
    tables = {"labelled": {"corpus": ["terms"] * 100}}
    phase = {"name": "step1", "batch_size": 8, "rows": {"from": "terms"}, "loss": "in_batch"}
    assert told(tmp_path, phase, tables) is None
    phase["rows"] = {"from": "terms", "max_rows": 10}
    assert told(tmp_path, phase, tables) == (
        "train: there are only 10 rows of 'terms' to train 'step1', 1.2 batches of 8, which teach "
        "an encoder little: add rows to 'terms'."
    )
