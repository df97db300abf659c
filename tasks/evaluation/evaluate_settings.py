"""What a recipe says of what an encoder is measured on."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from tercet.models.encoders.settings import FormSettings
from tercet.models.machine import Precision
from tercet.tasks.evaluation.suites.fact_order import name_after
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet, TaskName
from tercet.tasks.evaluation.suites.reranking import MTEB
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.evaluation.suites.suite import task_names
from tercet.tasks.stage import BadInput, Config


class EvaluateSettings(FormSettings, Config):
    """What an encoder is measured on, and how its vectors are made."""

    retrieval: bool = Field(
        default=True,
        description="Finds each document pair's answer among all answers of its split, and those "
        "of the table `questions`.",
    )
    suite: Path | None = Field(
        default=None, description="Directory in SentEval's layout with the tasks; null: none."
    )
    tasks: tuple[str, ...] = Field(
        default=STS_TASKS,
        description="Tasks of the suite, or sts, transfer, reranking, pairs or all.",
    )
    fact_order: dict[TaskName, str] = Field(
        default_factory=dict,
        description="Files of fact order by name, or one file: whether a rewording is nearer than "
        "a changed fact.",
        json_schema_extra={"type": ["object", "string"]},
    )
    sts_sets: dict[TaskName, StsSet] = Field(
        default_factory=dict,
        description="Files of graded pairs by name, or one file: Spearman of cosine and score.",
        json_schema_extra={"type": ["object", "string"]},
    )
    retrieval_sets: dict[TaskName, RetrievalSource] = Field(
        default_factory=dict,
        description="By name, or one alone: folders in BEIR's layout, whose queries are ranked "
        "among their documents, or tables of questions to the corpora's passages; by vectors, by "
        "BM25 and by both.",
        json_schema_extra={"type": ["object", "string"]},
    )
    splits: tuple[Split, ...] = Field(
        default=("test",), min_length=1, description="Splits to measure, each separately."
    )
    max_length: int | None = Field(
        default=None, ge=4, le=8192, description="Longest input in tokens; null: the model's own."
    )
    precision: Precision = Field(
        default="fp32", description="bf16 is faster and moves cosines by up to 4e-3."
    )
    max_pairs: int = Field(
        default=2_000,
        ge=2,
        le=10_000_000,
        description="Most document pairs, or halves, of a split, drawn by seed.",
    )
    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )

    @property
    def questions(self) -> dict[str, RetrievalSource]:
        """Those of `retrieval_sets` that are tables of questions to the run's passages."""
        return {name: one for name, one in self.retrieval_sets.items() if one.is_table}

    @field_validator("fact_order", "sts_sets", "retrieval_sets", mode="before")
    @classmethod
    def _one_file(cls, given: Any) -> Any:
        """A file alone gives its task its own name."""
        if isinstance(given, str):
            return {name_after(given): given}
        return {} if given is None else given

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, asked: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return task_names(asked)
        except BadInput as error:
            raise ValueError(str(error)) from None


def list_tasks(config: EvaluateSettings) -> tuple[str, ...]:
    """The tasks to read; without a suite those that need none."""
    own = tuple(name for name in config.tasks if name.startswith(MTEB))
    return own if config.suite is None else config.tasks


def measures_texts(config: EvaluateSettings) -> bool:
    """Whether it measures texts from outside the run, which training must not see."""
    return bool(list_tasks(config) or config.fact_order or config.sts_sets or config.retrieval_sets)


def suite_folder(config: EvaluateSettings) -> Path:
    """Where the suite lies; without one the folder of the process."""
    return Path() if config.suite is None else config.suite.expanduser()
