"""The ways to choose a checkpoint, by the value of `train.choose.by`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tercet.tasks.stage import Work
from tercet.tasks.training.chooser import RETRIEVAL, SUITE, Chooser
from tercet.tasks.training.chooser_sets import FACT_ORDER, OWN_SET
from tercet.tasks.training.train_settings import WAYS, ChoosesStep

if TYPE_CHECKING:
    from tercet.models.training.loop import Choice

UNVERSIONED = True

# Any other name is a set of `evaluate.sts_sets` or `evaluate.retrieval_sets`.
CHOOSERS: Mapping[str, Chooser] = dict(
    zip(WAYS, (RETRIEVAL, SUITE, SUITE, FACT_ORDER), strict=True)
)


def chooser_of(by: str) -> Chooser:
    """The chooser of this name."""
    return CHOOSERS.get(by, OWN_SET)


# `Stage.locations` of a stage whose config has `choose`: keys that name paths.
LOCATIONS = ("suite", "fact_order", "sts_sets.*.source", "retrieval_sets.*.source")


def choice_for(work: Work, config: ChoosesStep) -> "Choice | None":
    """How the training's best step is found; None: it keeps the last."""
    return None if config.choose is None else chooser_of(config.choose.by).choice_of(work, config)


def choice_files(config: ChoosesStep) -> dict[str, Path]:
    """The files of the dev set for the choice, if there is one."""
    return {} if config.choose is None else chooser_of(config.choose.by).files(config)


def chooser_used(config: ChoosesStep) -> Iterator[Chooser]:
    """The chooser, on whose code only this training depends."""
    if config.choose is not None:
        yield chooser_of(config.choose.by)
