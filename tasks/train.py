"""Stage `train`: an encoder from triplets, in phases; the artifact is a SentenceTransformer."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from tercet.models import seeding
from tercet.storage.rows import quoted
from tercet.tasks.sample import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.sources.triplet_file import file_triplets
from tercet.tasks.stage import BadInput, Config, Stage, Work

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


class TrainConfig(Config):
    """The encoder's form and the phases of its training."""

    pooling: Literal["mean", "cls"] | None = Field(
        default=None, description="How token states become a vector; null: the backbone's own way."
    )
    max_length: int = Field(
        default=64, ge=4, le=8192, description="Longest input in training, in tokens."
    )
    precision: Literal["fp32", "bf16"] = "fp32"
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the backbone's files."
    )
    triplets: str | None = Field(
        default=None,
        description="A file instead of the recipe's own triplets: .parquet, .csv, .tsv or .jsonl "
        "with anchor, positive and negative (or sent0, sent1, hard_neg).",
    )
    phases: tuple[PhaseConfig, ...] = Field(default=(PhaseConfig(),), min_length=1)
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")

    @model_validator(mode="after")
    def _distinct(self) -> "TrainConfig":
        # A phase's seed comes from its name.
        counts = Counter(phase.name for phase in self.phases)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"two phases have the name {twice[0]}: give each phase its own name")
        return self


def run(work: Work) -> Path:
    """Trains phase after phase; returns the encoder's directory and emits `training_log`."""
    config: TrainConfig = work.config
    given: pa.Table | None = None
    if config.triplets is not None:
        given, rejects = file_triplets(Path(config.triplets))
        if rejects.num_rows:
            work.emit("rejects", rejects)
    phases = [
        (settings(phase, config.max_length), phase.start == "backbone", _rows(work, phase, given))
        for phase in config.phases
    ]
    return fitted(work, config, phases)


def fitted(work: Work, config: Any, phases: Sequence[tuple[Any, bool, pa.Table]]) -> Path:
    """Trains the slot `backbone` and emits `training_log`; the encoder's directory.

    config: any with pooling, precision, log_steps and trust_remote_code. phases: each its numbers,
    whether it starts from the backbone again, and its rows.
    """
    from tercet.models import encoder, training

    setting = training.Setting(
        directory=work.scratch / "checkpoints",
        seed=work.seed,
        precision=config.precision,
        device=work.resources.device,
        log_steps=config.log_steps,
        progress=work.resources.progress,
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

    model, log = training.train_phases(load, phases, setting)
    work.emit("training_log", pa.Table.from_pylist(log, schema=TRAINING_LOG))
    return training.save_encoder(model, work.scratch / MODEL_FOLDER)


def settings(phase: PhaseConfig, max_length: int) -> Any:
    """The phase's numbers as `models.training` takes them."""
    from tercet.models.training import Phase

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


def _rows(work: Work, phase: PhaseConfig, given: pa.Table | None = None) -> pa.Table:
    """The phase's rows: row_id, anchor, positive and, of triplets, negative and label.

    given: the triplets of the config's file, if it names one.
    """
    config: TrainConfig = work.config
    if given is not None:
        if phase.corpora:
            raise BadInput(
                f"train: phase {phase.name} names corpora, but the triplets come from the file "
                f"{config.triplets}, which knows of none: leave corpora out."
            )
        if not given.num_rows:
            raise BadInput(
                f"train: {config.triplets} has no row with an anchor, a positive and a negative: "
                "give another file."
            )
        rows = given
    elif phase.rows == "dropout":
        rows = _anchors(work, phase)
    else:
        rows = _stored_triplets(work, phase)
    if not rows.num_rows:
        raise BadInput(
            f"train: phase {phase.name} has no row to train on: loosen select's thresholds, or "
            "look at why candidates were refused: "
            "SELECT reason, count(*) FROM rejects GROUP BY reason."
        )
    return shaped(rows, phase.rows, phase.max_rows, work.seed)


def _anchors(work: Work, phase: PhaseConfig) -> pa.Table:
    """The sampled sentences themselves: row_id, anchor."""
    shares = work.inputs["anchors"].table("anchors")
    found = []
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=[*ANCHOR_COLUMNS, "text"])
        chosen = anchor_mask(table, shares, work.seed)
        if phase.corpora:
            chosen &= np.isin(table["corpus"].to_pylist(), phase.corpora)
        found.append(table.filter(pa.array(chosen)).select(["sentence_id", "text"]))
    return pa.concat_tables(found).rename_columns(["row_id", "anchor"])


def externals(config: TrainConfig) -> dict[str, Path]:
    """The file of triplets, if there is one."""
    return {} if config.triplets is None else {"triplets": Path(config.triplets)}


def _stored_triplets(work: Work, phase: PhaseConfig) -> pa.Table:
    columns = ["triplet_id", "anchor", "positive", "negative", "negative_similarity"]
    if not phase.corpora:
        table = work.inputs["triplets"].table("triplets", columns)
    else:
        import duckdb

        listed = ", ".join(map(quoted, phase.corpora))
        with duckdb.connect() as connection:
            connection.execute(f"SET memory_limit = '{work.resources.memory_limit}'")
            table = connection.sql(
                f"""SELECT {", ".join(columns)} FROM {work.inputs["triplets"].sql("triplets")}
                    WHERE sentence_id IN (SELECT sentence_id
                        FROM {work.inputs["sentences"].sql("sentences")}
                        WHERE corpus IN ({listed}))"""
            ).to_arrow_table()
    return table.rename_columns(["row_id", "anchor", "positive", "negative", "label"])


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


STAGE = Stage(
    name="train",
    config=TrainConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    externals=externals,
    locations=("triplets",),
)
