"""Stage `fit_evaluator`: the teacher, by unsupervised SimCSE over the corpus (GCSE, stage 1)."""

from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tercet.models.losses.registry import LOSSES
from tercet.models.training.phase import PartRows, Schedule
from tercet.tasks.stage import BadInput, Stage, Work, connection
from tercet.tasks.training.choosers import LOCATIONS, choice_files, choice_for, chooser_used
from tercet.tasks.training.fitting import TRAINING_LOG, fitted, hyperparameters_of
from tercet.tasks.training.train_settings import ChoosesStep
from tercet.tasks.training.training_rows import drop_contaminated, shaped

LOSS = LOSSES["info_nce"]


class FitEvaluatorConfig(ChoosesStep):
    """Two dropout passes of each sentence; the sizes and rate are GCSE's code's by default."""

    batch_size: int = Field(default=64, ge=2, le=65_536, description="Sentences a step")
    max_length: int = Field(default=32, ge=4, le=8192, description="Longest input, in tokens")
    learning_rate: float = Field(
        default=2e-5, gt=0.0, le=1.0, description="The highest, after the warm-up."
    )
    warmup_steps: int = Field(
        default=0, ge=0, description="Steps with a rising learning rate; GCSE's code: 190."
    )
    lr_schedule: Schedule = Field(
        default="linear",
        description="After the warm-up the learning rate falls to 0 along a line or half a cosine, "
        "or is constant, as it nearly is in GCSE's code.",
    )
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0, description="Passes over the sentences")


def run(work: Work) -> Path:
    """Trains on the sentences of the train split; returns the evaluator's directory."""
    config: FitEvaluatorConfig = work.config
    hyper = hyperparameters_of(config, name="fit_evaluator")
    clean = drop_contaminated(work, _sentences(work), "guarded_sentences", "fit_evaluator")
    rows = shaped(clean, LOSS, None, work.seed)
    # SimCSE drops the head after training.
    params = LOSS.params.model_validate({"tau": 0.05, "head": True})
    part = PartRows("fit_evaluator", rows, LOSS.name, params)
    choice = choice_for(work, config)
    directory, _ = fitted(work, config, hyper, [part], work.seed, choice)
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
    uses=lambda config: (LOSS, *chooser_used(config)),
    externals=choice_files,
    locations=LOCATIONS,
)
