"""The ways to choose a checkpoint, by the value of `train.choose.by`."""

from collections.abc import Mapping

from tercet.tasks.training.chooser import RETRIEVAL, SUITE, Chooser
from tercet.tasks.training.chooser_sets import FACT_ORDER, OWN_SET
from tercet.tasks.training.train_settings import WAYS

UNVERSIONED = True

# Any other name is a set of `evaluate.sts_sets` or `evaluate.retrieval_sets`.
CHOOSERS: Mapping[str, Chooser] = dict(
    zip(WAYS, (RETRIEVAL, SUITE, SUITE, FACT_ORDER), strict=True)
)


def chooser_of(by: str) -> Chooser:
    """The chooser of this name."""
    return CHOOSERS.get(by, OWN_SET)
