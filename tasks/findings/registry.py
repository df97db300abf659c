"""All findings, by stage."""

from collections.abc import Sequence

from pydantic import BaseModel

from tercet.tasks.findings import answers, corpora, figures, trainings
from tercet.tasks.findings.finding import Finding
from tercet.tasks.stage import Stage
from tercet.tasks.training.train_settings import TrainConfig

FINDINGS = {
    **corpora.FINDINGS,
    **answers.FINDINGS,
    **trainings.FINDINGS,
    **figures.FINDINGS,
}
KEPT = corpora.KEPT


def findings_before(config: BaseModel) -> Sequence[Finding]:
    """The findings about a training's inputs, checked before it starts."""
    return trainings.BEFORE if isinstance(config, TrainConfig) else ()


def findings_after(stage: Stage) -> Sequence[Finding]:
    """The findings about a step's rows, checked once all its parts are made."""
    if "training_log" in stage.tables:  # any kind of training
        return FINDINGS["train"]
    # The reader of a corpus to pretrain on counts nothing.
    return () if "pretrain_sentences" in stage.tables else FINDINGS.get(stage.name, ())
