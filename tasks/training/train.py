"""Stage `train`: one phase of training; the artifact is a SentenceTransformer."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from tercet.models.encoders.pooling import FormSettings
from tercet.models.encoders.prompts import Prompts
from tercet.models.losses.registry import LOSSES
from tercet.models.precision import Precision
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.stage import Config, Stage, Work
from tercet.tasks.training.choosers import CHOOSERS, chooser_of
from tercet.tasks.training.fitting import TRAINING_LOG, fitted
from tercet.tasks.training.phase_rows import (
    DRAWN_PAIRS,
    DRAWS,
    drawn_table,
    draws_table,
    part_rows,
)
from tercet.tasks.training.phases import PhaseConfig

# A phase's name is part of its steps' names, where these have a meaning already.
_TAKEN = re.compile(r"base|encoder|previous|evaluator|seed\d+")
_MAX_LENGTH = 64


class ChooseConfig(Config):
    """How often the encoder is measured on dev, and by what."""

    every: int = Field(
        default=125, ge=1, description="Steps between two measurements on dev; 125 in the paper."
    )
    by: str = Field(
        default="retrieval",
        description="retrieval: MRR over the dev document pairs; STS-B, SICK-R: Spearman on the "
        "dev set of evaluate.suite; fact_order: share of the dev cases of evaluate.fact_order; a "
        "name of evaluate.sts_sets: Spearman on its dev pairs; of evaluate.retrieval_sets: nDCG@10 "
        "on its dev queries, whose documents are all encoded each time.",
        json_schema_extra={"examples": list(CHOOSERS)},
    )


class EncoderSettings(FormSettings, Config):
    """Settings that all phases of a training share."""

    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the backbone's files."
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")
    choose: ChooseConfig | None = Field(
        default=None,
        description="Keep the weights of the step that is best on dev; null: of the last step.",
    )


class TrainSettings(EncoderSettings):
    """The encoder's form and the phases of its training, one after the other."""

    max_length: int = Field(
        default=_MAX_LENGTH,
        ge=4,
        le=8192,
        description="Longest input in training, in tokens; a phase may have its own.",
    )
    phases: tuple[PhaseConfig, ...] = Field(
        default_factory=lambda: (PhaseConfig.model_validate({}),),
        description="Run one after the other",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, content: Any) -> Any:
        """A phase without its own max_length takes that of the training."""
        if not isinstance(content, dict) or not isinstance(content.get("phases", []), list | tuple):
            return content
        length = {"max_length": content.get("max_length", _MAX_LENGTH)}
        phases = [
            {**length, **phase} if isinstance(phase, dict) else phase
            for phase in content.get("phases", [{}])
        ]
        return {**content, "phases": phases}

    @model_validator(mode="after")
    def _named_apart(self) -> "TrainSettings":
        counts = Counter(phase.name for phase in self.phases)
        for name, count in counts.items():
            if count > 1:
                raise ValueError(f"two phases have the name {name}: give each phase its own name")
            if _TAKEN.fullmatch(name):
                raise ValueError(f"{name} already means something else: give the phase a name")
        return self


class TrainConfig(EncoderSettings):
    """One phase, with the seed that this training draws from, of several over the same rows."""

    phase: PhaseConfig
    prompts: Prompts = Prompts()
    model_seed: int | None = Field(
        default=None, description="Draws batches and dropout; null: the run's seed."
    )
    suite: Path | None = Field(
        default=None, description="Location of the dev set that `choose.by` names."
    )
    fact_order: dict[str, str] = Field(
        default_factory=dict, description="Files of the dev cases, by name: evaluate.fact_order."
    )
    sts_sets: dict[str, StsSet] = Field(
        default_factory=dict, description="The set that `choose.by` names: of evaluate.sts_sets."
    )
    retrieval_sets: dict[str, RetrievalSource] = Field(
        default_factory=dict,
        description="The set that `choose.by` names: of evaluate.retrieval_sets.",
    )
    max_pairs: int = Field(
        default=2_000, ge=2, description="Document pairs that `choose` reads: evaluate.max_pairs."
    )
    teachers: dict[str, FormSettings] = Field(
        default_factory=dict, description="By part, in which form its teacher is read."
    )


def run(work: Work) -> Path:
    """Trains the phase; returns the encoder's directory, emits the log and what was drawn."""
    config: TrainConfig = work.config
    phase = config.phase
    choice = None
    if config.choose is not None:
        choice = chooser_of(config.choose.by).choice_of(work, config)
    teachers = config.teachers
    parts = [part_rows(work, phase.name, part, teachers.get(part.name)) for part in phase.parts]
    seed = work.seed if config.model_seed is None else config.model_seed
    directory, trained = fitted(work, config, phase, parts, seed, choice, phase.mini_batch)
    if trained.draws is not None:
        work.emit("draws", draws_table(work, phase, seed, trained.draws))
    for drawn in trained.drawn:
        work.emit("drawn_pairs", drawn_table(phase.name, seed, drawn))
    return directory


def externals(config: TrainConfig) -> dict[str, Path]:
    """The files of the dev set for the choice, if there is one."""
    if config.choose is None:
        return {}
    return chooser_of(config.choose.by).files(config)


def uses(config: TrainConfig) -> Iterator[object]:
    """The phase's losses, and what chooses its checkpoint: no other training depends on these."""
    yield from (LOSSES[name] for name in config.phase.losses())
    if config.choose is not None:
        yield chooser_of(config.choose.by)


STAGE = Stage(
    name="train",
    config=TrainConfig,
    tables={"training_log": TRAINING_LOG, "draws": DRAWS, "drawn_pairs": DRAWN_PAIRS},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    uses=uses,
    externals=externals,
    locations=(
        "phase.backbone",
        "suite",
        "fact_order",
        "sts_sets.*.source",
        "retrieval_sets.*.source",
    ),
)
