"""One phase of a training: its numbers, the shape of its rows, and how several are gone through.

What `train` and `fit_evaluator` share.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from tercet.models import seeding
from tercet.tasks.stage import BadInput, Config, Work

if TYPE_CHECKING:
    from tercet.models.training.choosing import Choice

TRAINING_LOG = pa.schema(
    [
        ("phase", pa.string()),
        ("step", pa.int32()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("learning_rate", pa.float64()),
        ("gate_opening", pa.float64()),
        ("student_negative", pa.float64()),
        ("teacher_negative", pa.float64()),
        ("rows_per_second", pa.float64()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev_value", pa.float64()),
        ("chosen", pa.bool_()),
    ]
)

MODEL_FOLDER = "model"


class PhaseConfig(Config):
    """One phase: its rows, its loss and its numbers."""

    name: str = Field(default="triplets", min_length=1, max_length=64)
    rows: Literal["triplets", "pairs", "dropout"] = Field(
        default="triplets",
        description="triplets; (anchor, positive) pairs; or each anchor with itself, two dropout "
        "masks apart (unsupervised SimCSE).",
    )
    loss: Literal["gaussian_decay", "contrastive"] = Field(
        default="gaussian_decay",
        description="gaussian_decay needs triplets; contrastive: in-batch negatives, and the hard "
        "negatives where the rows have them (scale 1 / tau).",
    )
    start: Literal["previous", "backbone"] = Field(
        default="previous", description="Weights to start from: the phase before, or untouched."
    )
    corpora: tuple[str, ...] = Field(
        default=(), description="Only rows whose sentence is of these corpora; empty: all."
    )
    max_rows: int | None = Field(default=None, ge=1, description="A seeded sample of this many.")
    batch_size: int = Field(default=64, ge=2, le=65_536)
    learning_rate: float = Field(default=2e-5, gt=0.0, le=1.0)
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0)
    max_steps: int | None = Field(default=None, ge=1, description="Instead of epochs.")
    warmup: float = Field(default=0.1, ge=0.0, le=1.0, description="Share of the steps.")
    weight_decay: float = Field(default=0.0, ge=0.0, le=1.0)
    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    decay: bool = Field(
        default=True, description="The Gaussian decay; false: hard negatives count in full."
    )
    width: float = Field(
        default=0.2, ge=0.0, le=2.0, description="Half-width of the gate, in cosine; 0: no decay."
    )
    gate: Literal["symmetric", "one_sided"] = Field(
        default="symmetric",
        description="symmetric (the paper), or one_sided (its code): decay only where the "
        "student's cosine is at most the teacher's.",
    )
    detach: bool = Field(default=True, description="Keep the gate out of the gradient.")
    head: bool = Field(
        default=False, description="Dense layer and tanh on the vector, in training only."
    )
    word_repetition: bool = Field(
        default=False, description="Say some words of the anchor twice, anew each epoch."
    )

    @model_validator(mode="after")
    def _fits(self) -> "PhaseConfig":
        if self.loss == "gaussian_decay" and self.rows != "triplets":
            raise ValueError(
                f"rows: {self.rows} have no hard negative for loss: gaussian_decay: "
                "take loss: contrastive, or rows: triplets"
            )
        if self.loss == "gaussian_decay" and self.decay and self.width > 0 and self.head:
            raise ValueError(
                "head: true with the Gaussian decay would compare the student's cosine behind the "
                "head with the teacher's, which has none: leave out head, or set decay: false"
            )
        return self


def fitted(
    work: Work,
    config: Any,
    phases: Sequence[tuple[Any, bool, pa.Table]],
    seed: int,
    choice: "Choice | None" = None,
) -> Path:
    """Trains the slot `backbone` and emits `training_log`; the encoder's directory.

    config: any with pooling, precision, log_steps and trust_remote_code. phases: each its numbers,
    whether it starts from the backbone again, and its rows. choice: how each phase's weights are
    chosen; None: the last step's.
    """
    from tercet.models.encoders import encoder
    from tercet.models.training import choosing
    from tercet.models.training import loop as training

    setting = training.Setting(
        directory=work.scratch / "checkpoints",
        seed=seed,
        precision=config.precision,
        device=work.resources.device,
        log_steps=config.log_steps,
        progress=work.resources.progress,
        choice=choice,
    )

    def load() -> Any:
        try:
            return encoder.load_encoder(
                work.models["backbone"],
                config.pooling,
                device=work.resources.device,
                trust_remote_code=config.trust_remote_code,
            )
        except ValueError as error:
            raise BadInput(str(error)) from error

    try:
        model, log = training.train_phases(load, phases, setting)
    except choosing.NothingToChoose as error:
        raise BadInput(str(error)) from error
    rows = [{**row, "seed": seed} for row in log]
    work.emit("training_log", pa.Table.from_pylist(rows, schema=TRAINING_LOG))
    return training.save_encoder(model, work.scratch / MODEL_FOLDER)


def settings(phase: PhaseConfig, max_length: int) -> Any:
    """The phase's numbers as `models.training.loop` takes them."""
    from tercet.models.training.loop import Phase

    return Phase(
        name=phase.name,
        loss=phase.loss,
        batch_size=phase.batch_size,
        learning_rate=phase.learning_rate,
        epochs=phase.epochs,
        max_steps=phase.max_steps,
        warmup=phase.warmup,
        weight_decay=phase.weight_decay,
        max_length=max_length,
        tau=phase.tau,
        width=phase.width if phase.decay else 0.0,
        gate=phase.gate,
        detach=phase.detach,
        head=phase.head,
        word_repetition=phase.word_repetition,
    )


def shaped(
    rows: pa.Table, kind: Literal["triplets", "pairs", "dropout"], max_rows: int | None, seed: int
) -> pa.Table:
    """A seeded sample of the rows with the columns of their kind, in order of row_id."""
    rows = rows.sort_by("row_id")
    if max_rows is not None and rows.num_rows > max_rows:
        draws = seeding.draws(seed, "training rows", rows["row_id"].to_numpy())
        rows = rows.take(pa.array(np.sort(np.argsort(draws, kind="stable")[:max_rows])))
    anchor = rows["anchor"]
    table = {"row_id": rows["row_id"], "anchor": anchor}
    table["positive"] = anchor if kind == "dropout" else rows["positive"]
    if kind == "triplets":
        table["negative"] = rows["negative"]
        table["label"] = pc.fill_null(rows["label"].cast(pa.float32()), float("nan"))
    return pa.table(table).combine_chunks()
