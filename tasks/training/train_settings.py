"""Settings of stage `train`, and of its phases one after the other."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.encoders.settings import FormSettings, Prompts
from tercet.models.machine import Precision
from tercet.tasks.config import Steers, Wired
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.stage import Config
from tercet.tasks.training.phases import PhaseConfig

# Values of `choose.by` besides names of the user's sets (`choosers.py`).
WAYS = ("retrieval", "STS-B", "SICK-R", "fact_order")
# A phase's name is part of its steps' names, where these have a meaning already.
_TAKEN = re.compile(r"base|encoder|previous|evaluator|seed\d+")
_MAX_LENGTH = 64


class CheckpointConfig(Config):
    """How often the encoder is measured on dev, and by what."""

    every: int = Field(
        default=125, ge=1, description="Steps between two measurements on dev; GCSE's code's."
    )
    by: str = Field(
        default="retrieval",
        description="retrieval: MRR over the dev document pairs; STS-B, SICK-R: Spearman on the "
        "dev set of evaluate.suite; fact_order: share of the dev cases of evaluate.fact_order; a "
        "name of evaluate.sts_sets: Spearman on its dev pairs; of evaluate.retrieval_sets: nDCG@10 "
        "on its dev queries, whose documents are all encoded each time.",
        json_schema_extra={"examples": list(WAYS)},
    )


class ChoosesStep(FormSettings):
    """A training of which the step that is best on dev can be kept.

    suite, fact_order, sts_sets, retrieval_sets, max_pairs: what `choose.by` names, of `evaluate`.
    """

    choose: CheckpointConfig | None = Field(
        default=None,
        description="Keep the weights of the step that is best on dev; null: of the last step.",
    )
    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the backbone's files."
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")
    prompts: Wired[Prompts] = Prompts()
    suite: Wired[Path | None] = None
    fact_order: Wired[dict[str, str]] = Field(default_factory=dict)
    sts_sets: Wired[dict[str, StsSet]] = Field(default_factory=dict)
    retrieval_sets: Wired[dict[str, RetrievalSource]] = Field(default_factory=dict)
    max_pairs: Wired[int] = 2_000


class TrainConfig(ChoosesStep):
    """The encoder's form and the phases of its training, one after another; each step has one
    phase.

    model_seed: draws batches and dropout; null: the run's seed. teachers: by part, the form in
    which its teacher encodes texts.
    """

    max_length: Steers[int] = Field(
        default=_MAX_LENGTH,
        ge=4,
        le=8192,
        description="Longest input in training, in tokens; a phase may have its own.",
    )
    phases: Steers[tuple[PhaseConfig, ...]] = Field(
        default=(), description="Run one after the other; left out, one with the defaults"
    )
    phase: Wired[PhaseConfig] = PhaseConfig.model_validate({})
    model_seed: Wired[int | None] = None
    teachers: Wired[dict[str, FormSettings]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, content: Any) -> Any:
        """A phase without its own max_length takes that of the training."""
        if (
            not isinstance(content, dict)
            or "phase" in content
            or not isinstance(content.get("phases", []), list | tuple)
        ):
            return content
        length = {"max_length": content.get("max_length", _MAX_LENGTH)}
        phases = [
            {**length, **phase} if isinstance(phase, dict) else phase
            for phase in content.get("phases", [{}])
        ]
        return {**content, "phases": phases}

    @model_validator(mode="after")
    def _named_apart(self) -> "TrainConfig":
        counts = Counter(phase.name for phase in self.phases)
        for name, count in counts.items():
            if count > 1:
                raise InvalidSetting(
                    "conflict", f"two phases have the name {name}: give each phase its own name"
                )
            if _TAKEN.fullmatch(name):
                raise InvalidSetting(
                    "conflict", f"{name} already means something else: give the phase a name"
                )
        return self
