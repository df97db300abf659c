"""Stage `train`: an encoder from triplets, in phases; the artifact is a SentenceTransformer."""

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from tercet.storage.rows import quoted
from tercet.tasks.corpus.sample import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.corpus.sources.triplet_file import file_triplets
from tercet.tasks.guarding.removal import without_contaminated
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.choose import ChooseConfig, choice_of, dev_files
from tercet.tasks.training.phases import TRAINING_LOG, PhaseConfig, fitted, settings, shaped


class TrainSettings(Config):
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
    choose: ChooseConfig | None = Field(
        default=None,
        description="Keep the weights of the step that is best on dev; null: those of the last.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> "TrainSettings":
        # A phase's seed comes from its name.
        counts = Counter(phase.name for phase in self.phases)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"two phases have the name {twice[0]}: give each phase its own name")
        return self


class TrainConfig(TrainSettings):
    """The same with the seed that this training draws from, of several over the same rows."""

    model_seed: int | None = Field(
        default=None, description="Draws batches and dropout; null: the run's seed."
    )
    suite: Path | None = Field(
        default=None, description="Where the dev set lies that `choose.by` names."
    )


def run(work: Work) -> Path:
    """Trains phase after phase; returns the encoder's directory and emits `training_log`."""
    config: TrainConfig = work.config
    choice = None
    if config.choose is not None:
        choice = choice_of(work, config.choose, config.suite, config.precision)
    given: pa.Table | None = None
    if config.triplets is not None:
        given, rejects = file_triplets(Path(config.triplets))
        if rejects.num_rows:
            work.emit("rejects", rejects)
    phases = [
        (settings(phase, config.max_length), phase.start == "backbone", _rows(work, phase, given))
        for phase in config.phases
    ]
    seed = work.seed if config.model_seed is None else config.model_seed
    return fitted(work, config, phases, seed, choice)


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
    own = given is None and phase.rows == "dropout"
    slot = "guarded_sentences" if own else "guarded_triplets"
    rows = without_contaminated(work, rows, slot, f"train: phase {phase.name}")
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
    """The file of triplets and the dev set that is chosen on, where there are such."""
    triplets = {} if config.triplets is None else {"triplets": Path(config.triplets)}
    return {**triplets, **dev_files(config.choose, config.suite)}


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


STAGE = Stage(
    name="train",
    config=TrainConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    externals=externals,
    locations=("triplets", "suite"),
)
