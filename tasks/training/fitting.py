"""Shared by stages that train: configs of models that a recipe makes, and the training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field

from tercet.errors import kind_of
from tercet.models.machine import Precision
from tercet.models.training.phase import Hyperparameters, Optimizer, PartRows, Trained
from tercet.tasks.config import Wired
from tercet.tasks.stage import BadInput, Config, Work

if TYPE_CHECKING:
    from tercet.models.training.loop import Choice, Setting

TRAINING_LOG = pa.schema(
    [
        ("phase", pa.string()),
        ("step", pa.int32()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("terms", pa.map_(pa.string(), pa.float64())),
        ("learning_rate", pa.float64()),
        ("rows_per_second", pa.float64()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev_value", pa.float64()),
        ("chosen", pa.bool_()),
    ],
    # Computed columns of the table's view: terms of the losses gaussian_decay and
    # pairwise_logistic, from the first part that has them.
    {
        name: "(list_filter(map_entries(terms), lambda e: "
        f"e.key = '{name}' OR ends_with(e.key, '.{name}')))[1].value"
        for name in (
            *("gate_opening", "gradient_share", "student_negative", "teacher_negative"),
            "in_order",
        )
    },
)
"""Table `training_log`. One row every `log_steps` steps, and one at the end of each phase. Values
are means since the previous row. With `train.choose` the encoder is measured on dev: a measured
step between two logged ones has its own row, without values of the loss.

Other stages write it too: `fit_evaluator` as phase `fit_evaluator`; `pretrain` as a phase with the
model's name (dev measure: the loss on held-out text; terms: `tokens` of a step, without padding,
and `tokens_per_second`); and `fit_generator` (dev measure: average ROUGE of held-out pairs; terms:
`cross_entropy` and, for VAEGPT, `kl` and `target`; for form `gense` accuracy − 10 · perplexity,
with the terms `written` and `judged`).

Key: `phase`, `step`, `seed`.

Columns:
    phase: the phase's name
    step: optimiser steps of the phase so far
    epoch: passes over the phase's rows so far
    loss: the loss
    terms: the loss's terms, by name; in a phase of several parts `PART.TERM`, and each part's loss
        as `PART.loss`
    learning_rate: at that step
    rows_per_second: rows trained a second, without the time for measuring
    seed: the seed of this training, one of several over the same rows
    dev_metric: the figure measured on dev after this step, named as in `evaluations`; else NULL
    dev_value: its value, in percent (a `loss` in nats a token); NULL also if the encoder cannot
        tell texts apart
    chosen: whether the phase ended with the weights of this step
    gate_opening: mean opening of the Gaussian decay's gate, the factor on the logit of a row's
        hard negative, 0 to 1; NULL without that loss. It differs from the share of the gradient,
        since the logit stands in an exponential
    gradient_share: share of the gradient on the logits of the rows' hard negatives that the decay
        lets through: 1 without decay, 0 if it blocks all; the mean over batches of ratios of sums
        over rows; NULL without that loss
    student_negative: cosine of anchor and hard negative by the encoder in training; else NULL
    teacher_negative: the same cosine by the evaluator, or by the part's teacher; NULL if no row
        has one
    in_order: share of the rows whose positive is nearer than the negative, 0 to 1; NULL without the
        loss `pairwise_logistic`
"""


def log_table(rows: Sequence[dict[str, Any]], phase: str, seed: int) -> pa.Table:
    """The loop's log as the table `training_log`."""
    full = [
        {**row, "phase": phase, "seed": seed, "terms": sorted((row["terms"] or {}).items())}
        for row in rows
    ]
    return pa.Table.from_pylist(full, schema=TRAINING_LOG)


# A generator's.
WEIGHT_DECAY = 0.01


class FittedGenerator(Config):
    """The model to start from, and how it is fitted."""

    name: Wired[str] = ""
    init: str = Field(
        min_length=1,
        description="A model of the form, of `gense` a T5, named like any other.",
    )
    optimizer: Optimizer = Field(
        default="adamw",
        description="adafactor: rates are relative to the size of the weights; for a small T5, ten "
        "times adamw's rate.",
    )
    epochs: float = Field(default=10.0, gt=0.0, le=1000.0, description="Passes over the pairs")
    max_steps: int | None = Field(default=None, ge=1, description="Instead of epochs.")
    warmup: float = Field(
        default=0.06, ge=0.0, le=1.0, description="Share of the steps with a rising learning rate"
    )
    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return {"init": self.init}


def hyperparameters_of(config: Config, **more: Any) -> Hyperparameters:
    """The hyperparameters among a config's fields."""
    return Hyperparameters(**config.model_dump(include={*Hyperparameters.model_fields}), **more)


def setting_of(
    work: Work, config: Any, choice: "Choice | None" = None, seed: int | None = None
) -> "Setting":
    """The setting of a stage's training.

    config: has precision and log_steps. seed: None: the run's.
    """
    from tercet.models.training import loop

    return loop.Setting(
        directory=work.scratch / "checkpoints",
        seed=work.seed if seed is None else seed,
        precision=config.precision,
        device=work.resources.device,
        log_steps=config.log_steps,
        progress=work.resources.progress,
        choice=choice,
    )


def fitted(
    work: Work,
    config: Any,
    hyper: Hyperparameters,
    parts: Sequence[PartRows],
    seed: int,
    choice: "Choice | None" = None,
    mini_batch: int | None = None,
) -> tuple[Path, Trained]:
    """Trains the slot `backbone` through one phase, and emits `training_log`.

    Returns the trained encoder's directory and the training's other results.

    config: has pooling, prompt, precision, log_steps and trust_remote_code. choice: how the weights
    are chosen; None: the last step's. mini_batch: texts encoded at once; None: all of a batch.
    """
    from tercet.models.encoders import encoder
    from tercet.models.training import loop
    from tercet.models.training.train_encoder import save_encoder, train_encoder

    try:
        model = encoder.load_encoder(
            work.models["backbone"],
            config.pooling,
            device=work.resources.device,
            trust_remote_code=config.trust_remote_code,
            prompt=config.prompt,
            cnn_seed=seed,
            prompts=getattr(config, "prompts", None),
        )
        trained = train_encoder(
            model, hyper, parts, setting_of(work, config, choice, seed), mini_batch
        )
    except (ValueError, loop.NothingToChoose) as error:
        raise BadInput(kind_of(error, "unfit_model"), str(error)) from error
    work.emit("training_log", log_table(trained.log, hyper.name, seed))
    return save_encoder(model, work.scratch / "model", trained.kept), trained
