"""Stage `fit_evaluator`: the teacher, by unsupervised SimCSE over the corpus (GCSE, stage 1)."""

from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from tercet.storage.rows import quoted
from tercet.tasks.guarding.removal import without_contaminated
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.phases import TRAINING_LOG, PhaseConfig, fitted, settings, shaped


class FitEvaluatorConfig(Config):
    """Two dropout passes of each sentence; the numbers are those of GCSE's code."""

    pooling: Literal["mean", "cls"] | None = Field(
        default=None, description="How token states become a vector; null: the backbone's own way."
    )
    corpora: tuple[str, ...] = Field(default=(), description="Only these corpora; empty: all.")
    max_rows: int | None = Field(default=None, ge=1, description="A seeded sample of this many.")
    batch_size: int = Field(default=64, ge=2, le=65_536)
    max_length: int = Field(default=32, ge=4, le=8192)
    learning_rate: float = Field(default=2e-5, gt=0.0, le=1.0)
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0)
    warmup: float = Field(default=0.0, ge=0.0, le=1.0)
    tau: float = Field(default=0.05, gt=0.0, le=10.0)
    head: bool = Field(default=True, description="The head that SimCSE drops after training.")
    precision: Literal["fp32", "bf16"] = "fp32"
    trust_remote_code: bool = False
    log_steps: int = Field(default=10, ge=1)


def run(work: Work) -> Path:
    """Trains on the sentences of the train split; returns the evaluator's directory."""
    config: FitEvaluatorConfig = work.config
    phase = PhaseConfig(
        name="fit_evaluator",
        rows="dropout",
        loss="contrastive",
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        epochs=config.epochs,
        warmup=config.warmup,
        tau=config.tau,
        head=config.head,
    )
    found = without_contaminated(work, _sentences(work), "guarded_sentences", "fit_evaluator")
    rows = shaped(found, "dropout", config.max_rows, work.seed)
    phases = [(settings(phase, config.max_length), True, rows)]
    return fitted(work, config, phases, work.seed)


def _sentences(work: Work) -> pa.Table:
    """Sentences of the train split: row_id, anchor."""
    import duckdb

    config: FitEvaluatorConfig = work.config
    listed = ", ".join(map(quoted, config.corpora))
    of_corpora = f"AND corpus IN ({listed})" if listed else ""
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{work.resources.memory_limit}'")
        rows = connection.sql(
            f"""SELECT sentence_id AS row_id, text AS anchor
                FROM {work.inputs["sentences"].sql("sentences")}
                WHERE split = 'train' {of_corpora}"""
        ).to_arrow_table()
    if not rows.num_rows:
        raise BadInput(
            "fit_evaluator: there is no sentence of the train split to fit on: check the corpora "
            "that the recipe names, and what ingest refused."
        )
    return rows


STAGE = Stage(
    name="fit_evaluator",
    config=FitEvaluatorConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
)
