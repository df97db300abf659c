"""Stage `fit_evaluator`: the teacher, by unsupervised SimCSE over the corpus (GCSE, stage 1)."""

from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field, model_validator

from tercet.models.encoders.settings import FormSettings
from tercet.models.losses.info_nce import LOSS
from tercet.models.machine import Precision
from tercet.models.training.phase import PartRows
from tercet.storage.rows import quoted
from tercet.tasks.stage import BadInput, Config, Stage, Work, connection
from tercet.tasks.training.fitting import TRAINING_LOG, fitted, hyperparameters_of
from tercet.tasks.training.training_rows import drop_contaminated, shaped


class FitEvaluatorConfig(FormSettings, Config):
    """Two dropout passes of each sentence; the defaults are those of GCSE's code."""

    corpora: tuple[str, ...] = Field(default=(), description="Only these corpora; empty: all.")
    role: Literal["domain", "general"] | None = Field(
        default=None, description="Only the corpora with this role, instead of `corpora`."
    )
    max_rows: int | None = Field(default=None, ge=1, description="A seeded sample of this many.")
    batch_size: int = Field(default=64, ge=2, le=65_536, description="Sentences a step")
    max_length: int = Field(default=32, ge=4, le=8192, description="Longest input, in tokens")
    learning_rate: float = Field(
        default=2e-5, gt=0.0, le=1.0, description="The highest, after the warm-up."
    )
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0, description="Passes over the sentences")
    warmup: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of the steps with a rising learning rate"
    )
    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature")
    head: bool = Field(default=True, description="The head that SimCSE drops after training.")
    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    trust_remote_code: bool = Field(
        False, description="Run Python code that comes with the model's files"
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of `training_log`")

    @model_validator(mode="after")
    def _one_choice(self) -> "FitEvaluatorConfig":
        if self.corpora and self.role is not None:
            raise ValueError("give either corpora or role")
        return self


def run(work: Work) -> Path:
    """Trains on the sentences of the train split; returns the evaluator's directory."""
    config: FitEvaluatorConfig = work.config
    hyper = hyperparameters_of(config, name="fit_evaluator")
    found = drop_contaminated(work, _sentences(work), "guarded_sentences", "fit_evaluator")
    rows = shaped(found, LOSS, config.max_rows, work.seed)
    params = LOSS.params.model_validate({"tau": config.tau, "head": config.head})
    part = PartRows("fit_evaluator", rows, LOSS.name, params)
    directory, _ = fitted(work, config, hyper, [part], work.seed)
    return directory


def _sentences(work: Work) -> pa.Table:
    """Sentences of the train split, each its own positive: row_id, anchor, positive."""
    config: FitEvaluatorConfig = work.config
    listed = ", ".join(map(quoted, config.corpora))
    of_corpora = f"AND corpus IN ({listed})" if listed else ""
    with connection(work) as db:
        rows = db.sql(
            f"""SELECT sentence_id AS row_id, text AS anchor, text AS positive
                FROM {work.inputs["sentences"].sql("sentences")}
                WHERE split = 'train' {of_corpora}"""
        ).to_arrow_table()
    if not rows.num_rows:
        raise BadInput(
            "fit_evaluator: the train split has no sentences to fit on: check the corpora "
            "that the recipe names, and what ingest rejected."
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
