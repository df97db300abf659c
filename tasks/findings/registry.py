"""All findings, by what is looked at."""

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
    """Those of the inputs of a step that takes long, before it is made."""
    return trainings.BEFORE if isinstance(config, TrainConfig) else ()


def findings_after(stage: Stage) -> Sequence[Finding]:
    """Those of a step's rows once all its parts are made."""
    if "training_log" in stage.tables:  # whatever it makes
        return FINDINGS["train"]
    # Of a corpus to pretrain on nothing is counted.
    return () if "pretrain_sentences" in stage.tables else FINDINGS.get(stage.name, ())
