"""Warnings of a run's steps: looked for once, while an artifact is made, and kept in its manifest.

They are the table `warnings`. Looking costs no second pass over a corpus: it reads counts, single
columns, or the first rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel

from tercet.flows.pipeline.step import Step
from tercet.flows.running.llm_session import LlmSession
from tercet.storage.answers import contents
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import Rows, joined
from tercet.storage.store import Store
from tercet.tasks import guarding
from tercet.tasks.corpus import ingest, passages, sample
from tercet.tasks.corpus import warnings as corpus_warnings
from tercet.tasks.evaluation import evaluate, judgements
from tercet.tasks.evaluation import warnings as evaluation_warnings
from tercet.tasks.knowledge import extract, extract_parse, graph
from tercet.tasks.retrieval import negatives
from tercet.tasks.scoring import embed, select
from tercet.tasks.stage import Config, Resources, Work
from tercet.tasks.synthesis import answer_warnings, parse, synthesise
from tercet.tasks.training import train_warnings
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.warning import StageWarning

Find: TypeAlias = Callable[[Work, Rows, Sequence[BaseModel]], Iterator[StageWarning]]

# By the stage's name; whatever it makes, a stage that trains has a table `training_log`.
_FIND: Mapping[str, Find] = {
    ingest.STAGE.name: corpus_warnings.find_ingest,
    passages.STAGE.name: corpus_warnings.find_long_passages,
    extract.STAGE.name: corpus_warnings.find_extract,
    extract_parse.STAGE.name: corpus_warnings.find_extract,
    synthesise.NAME: answer_warnings.find_repeated,
    parse.STAGE.name: answer_warnings.find_unusable,
    embed.STAGE.name: answer_warnings.find_embed,
    select.STAGE.name: answer_warnings.find_select,
    negatives.STAGE.name: train_warnings.find_few_negatives,
    guarding.SENTENCES.name: train_warnings.find_transductive,
    judgements.STAGE.name: evaluation_warnings.find_judgements,
    evaluate.STAGE.name: evaluation_warnings.find_evaluate,
}
_KEPT: Mapping[str, Find] = {
    sample.STAGE.name: corpus_warnings.find_kept_sample,
    graph.STAGE.name: corpus_warnings.find_kept_graph,
}
_LOG = "training_log"


@dataclass(frozen=True)
class Look:
    """A step to look at.

    steps: of the whole run. artifact_of: the artifact of a step's name, finished for the step's
        inputs. models: the directories of the step's models.
    """

    step: Step
    steps: Sequence[Step]
    artifact_of: Callable[[str], Artifact]
    models: Mapping[str, Path]
    memory_limit: str

    def work(self, spec: Mapping[str, Any] | None = None) -> Work:
        """The work of the step's one part, with all of its inputs."""
        inputs = {
            slot: joined([self.artifact_of(name).rows() for name in names])
            for slot, names in self.step.inputs.items()
        }
        return Work(
            config=self.step.config,
            seed=0,
            inputs=inputs,
            models=self.models,
            spec=dict(spec or {}),
            resources=Resources(memory_limit=self.memory_limit),
            scratch=self.artifact_of(self.step.name).scratch(),
            emit=lambda table, rows: None,
            stage=self.step.stage.name,
        )

    def made(self) -> Rows:
        """The rows of the step."""
        return self.artifact_of(self.step.name).rows()

    def configs(self) -> list[Config]:
        """Those of the whole run."""
        return [one.config for one in self.steps]


def find_before(look: Look) -> Iterator[StageWarning]:
    """What its inputs say of a step that takes long, before it is made."""
    if isinstance(look.step.config, TrainConfig):
        yield from train_warnings.find_before(look.work(), look.configs())


def find_after(look: Look) -> Iterator[StageWarning]:
    """What the rows of a step say once all its parts are made."""
    stage = look.step.stage
    find = train_warnings.find_lost if _LOG in stage.tables else _FIND.get(stage.name)
    if find is not None:
        yield from find(look.work(), look.made(), look.configs())


def find_of_endpoints(look: Look, store: Store, llm: LlmSession) -> Iterator[StageWarning]:
    """What shows that one of the recipe's endpoints is not well, once the parts are made."""
    stage = look.step.stage
    if stage.asks is not None:
        yield from llm.warnings()
    elif stage.name in (parse.STAGE.name, extract_parse.STAGE.name) and llm.has_several():
        yield from answer_warnings.find_by_endpoint(look.work(), look.made(), contents(store))


def find_kept(look: Look) -> Iterator[StageWarning]:
    """What the inputs of a step hold that the version in its place does not know."""
    plan = look.artifact_of(look.step.name).plan()
    assert plan is not None
    find = _KEPT[look.step.stage.name]
    yield from find(look.work(plan[0]["spec"]), look.made(), look.configs())
