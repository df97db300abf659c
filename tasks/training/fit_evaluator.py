"""Stage `fit_evaluator`: the teacher, by unsupervised SimCSE over the corpus (GCSE, stage 1)."""

from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tercet.models.encoders.settings import FormSettings
from tercet.models.losses.registry import LOSSES
from tercet.models.machine import Precision
from tercet.models.training.phase import PartRows
from tercet.tasks.stage import BadInput, Config, Stage, Work, connection
from tercet.tasks.training.fitting import TRAINING_LOG, fitted, hyperparameters_of
from tercet.tasks.training.training_rows import drop_contaminated, shaped

LOSS = LOSSES["info_nce"]


class FitEvaluatorConfig(FormSettings, Config):
    """Two dropout passes of each sentence; the defaults are GCSE's code's, but its epochs (3)."""

    batch_size: int = Field(default=64, ge=2, le=65_536, description="Sentences a step")
    max_length: int = Field(default=32, ge=4, le=8192, description="Longest input, in tokens")
    learning_rate: float = Field(
        default=2e-5, gt=0.0, le=1.0, description="At the first step; it falls to 0."
    )
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0, description="Passes over the sentences")
    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    trust_remote_code: bool = Field(
        False, description="Run Python code that comes with the model's files"
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of `training_log`")


def run(work: Work) -> Path:
    """Trains on the sentences of the train split; returns the evaluator's directory."""
    config: FitEvaluatorConfig = work.config
    hyper = hyperparameters_of(config, name="fit_evaluator", warmup=0.0)
    clean = drop_contaminated(work, _sentences(work), "guarded_sentences", "fit_evaluator")
    rows = shaped(clean, LOSS, None, work.seed)
    # SimCSE drops the head after training.
    params = LOSS.params.model_validate({"tau": 0.05, "head": True})
    part = PartRows("fit_evaluator", rows, LOSS.name, params)
    directory, _ = fitted(work, config, hyper, [part], work.seed)
    return directory


def _sentences(work: Work) -> pa.Table:
    """Sentences of the train split, each its own positive: row_id, anchor, positive."""
    with connection(work) as db:
        rows = db.sql(
            f"""SELECT sentence_id AS row_id, text AS anchor, text AS positive
                FROM {work.inputs["sentences"].sql("sentences")}
                WHERE split = 'train'"""
        ).to_arrow_table()
    if not rows.num_rows:
        raise BadInput(
            "no_rows",
            "fit_evaluator: the train split has no sentences to fit on: see what ingest rejected.",
        )
    return rows


STAGE = Stage(
    name="fit_evaluator",
    config=FitEvaluatorConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    uses=lambda config: (LOSS,),
)
