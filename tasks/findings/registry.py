"""All findings, by stage.

An installed package adds its own in the entry points `tercet.findings` (docs/plugins.md).
"""

from collections.abc import Sequence

from tercet.models.plugins import loaded
from tercet.tasks.findings import answers, corpora, figures, trainings
from tercet.tasks.findings.finding import Finding
from tercet.tasks.stage import Config, Stage
from tercet.tasks.training.train_settings import TrainConfig

FINDINGS = {
    **corpora.FINDINGS,
    **answers.FINDINGS,
    **trainings.FINDINGS,
    **figures.FINDINGS,
}
KEPT = corpora.KEPT


def findings_before(config: Config) -> Sequence[Finding]:
    """The findings about a training's inputs, checked before it starts."""
    return trainings.BEFORE if isinstance(config, TrainConfig) else ()


def findings_after(stage: Stage) -> Sequence[Finding]:
    """The findings about a step's rows, checked once all its parts are made."""
    theirs = [one for _, one in loaded("tercet.findings", Finding) if one.stage == stage.name]
    if "training_log" in stage.tables:  # any kind of training
        return (*FINDINGS["train"], *theirs)
    # The reader of a corpus to pretrain on counts nothing.
    ours = () if "pretrain_sentences" in stage.tables else FINDINGS.get(stage.name, ())
    return (*ours, *theirs)
