"""Warnings of a run's steps: looked for once, while an artifact is made, and kept in its manifest.

They are the table `warnings`. Looking costs no second pass over a corpus: it reads counts, single
columns, or the first rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel

from tercet.flows.pipeline.step import Step
from tercet.flows.running.llm_session import LlmSession
from tercet.storage.answers.journal import contents
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import Rows, joined
from tercet.storage.store import Store
from tercet.tasks.corpus import (
    ingest,
    ingest_warnings,
    passages,
    passages_warnings,
    sample,
    sample_warnings,
)
from tercet.tasks.evaluation import evaluate, evaluate_warnings, judgements, judgements_warnings
from tercet.tasks.guarding import guard, guard_warnings
from tercet.tasks.knowledge import (
    extract,
    extract_parse,
    extract_warnings,
    graph,
    graph_warnings,
)
from tercet.tasks.retrieval import negatives, negatives_warnings
from tercet.tasks.scoring import embed, embed_warnings, select, select_warnings
from tercet.tasks.stage import Resources, Work
from tercet.tasks.synthesis import answer_warnings, parse, synthesise
from tercet.tasks.training import train_warnings
from tercet.tasks.training.train import TrainConfig
from tercet.tasks.warning import StageWarning

Find: TypeAlias = Callable[[Work, Rows, Sequence[BaseModel]], Iterator[StageWarning]]

# By the stage's name; whatever it makes, a stage that trains has a table `training_log`.
_FIND: Mapping[str, Find] = {
    ingest.STAGE.name: ingest_warnings.find,
    passages.STAGE.name: passages_warnings.find,
    extract.STAGE.name: extract_warnings.find,
    extract_parse.STAGE.name: extract_warnings.find,
    synthesise.NAME: answer_warnings.find_repeated,
    parse.STAGE.name: answer_warnings.find_unusable,
    embed.STAGE.name: embed_warnings.find,
    select.STAGE.name: select_warnings.find,
    negatives.STAGE.name: negatives_warnings.find,
    guard.SENTENCES.name: guard_warnings.find,
    judgements.STAGE.name: judgements_warnings.find,
    evaluate.STAGE.name: evaluate_warnings.find,
}
_KEPT: Mapping[str, Find] = {
    sample.STAGE.name: sample_warnings.find_kept,
    graph.STAGE.name: graph_warnings.find_kept,
}
_LOG = "training_log"


def find_before(
    step: Step,
    steps: Sequence[Step],
    artifact_of: Callable[[str], Artifact],
    models: Mapping[str, Path],
    memory_limit: str,
) -> list[dict[str, Any]]:
    """What its inputs say of a step that takes long, before it is made.

    steps: of the whole run. artifact_of: the finished artifact of a step's name. models: the
        directories of the step's models.
    """
    if not isinstance(step.config, TrainConfig):
        return []
    work = _work(step, artifact_of, models, memory_limit)
    return _rows(step, train_warnings.find_before(work, [one.config for one in steps]))


def find_after(
    step: Step,
    steps: Sequence[Step],
    artifact_of: Callable[[str], Artifact],
    models: Mapping[str, Path],
    memory_limit: str,
) -> list[dict[str, Any]]:
    """What the rows of a step say once all its parts are made."""
    find = train_warnings.find_lost if _LOG in step.stage.tables else _FIND.get(step.stage.name)
    if find is None:
        return []
    work, made = _work(step, artifact_of, models, memory_limit), artifact_of(step.name).rows()
    return _rows(step, find(work, made, [one.config for one in steps]))


def find_of_endpoints(
    step: Step,
    artifact_of: Callable[[str], Artifact],
    memory_limit: str,
    store: Store,
    llm: LlmSession,
) -> list[dict[str, Any]]:
    """What shows that one of the recipe's endpoints is not well, once the parts are made."""
    if step.stage.asks is not None:
        return _rows(step, llm.warnings())
    if step.stage.name not in (parse.STAGE.name, extract_parse.STAGE.name) or not llm.has_several():
        return []
    work, made = _work(step, artifact_of, {}, memory_limit), artifact_of(step.name).rows()
    return _rows(step, answer_warnings.find_by_endpoint(work, made, contents(store)))


def find_kept(
    step: Step,
    steps: Sequence[Step],
    artifact_of: Callable[[str], Artifact],
    models: Mapping[str, Path],
    memory_limit: str,
) -> list[dict[str, Any]]:
    """What the inputs of a step hold that the version in its place does not know."""
    artifact = artifact_of(step.name)
    plan = artifact.plan()
    assert plan is not None
    work = replace(_work(step, artifact_of, models, memory_limit), spec=plan[0]["spec"])
    configs = [one.config for one in steps]
    return _rows(step, _KEPT[step.stage.name](work, artifact.rows(), configs))


def _work(
    step: Step,
    artifact_of: Callable[[str], Artifact],
    models: Mapping[str, Path],
    memory_limit: str,
) -> Work:
    inputs = {
        slot: joined([artifact_of(name).rows() for name in names])
        for slot, names in step.inputs.items()
    }
    return Work(
        config=step.config,
        seed=0,
        inputs=inputs,
        models=models,
        spec={},
        resources=Resources(memory_limit=memory_limit),
        scratch=artifact_of(step.name).scratch(),
        emit=lambda table, rows: None,
        stage=step.stage.name,
    )


def _rows(step: Step, found: Iterator[StageWarning]) -> list[dict[str, Any]]:
    return [{"step": step.name, "stage": step.stage.name, **asdict(one)} for one in found]
