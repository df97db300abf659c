"""The choice of a checkpoint by graded pairs of one's own, on those of split dev."""

from pathlib import Path
from typing import TYPE_CHECKING

from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.stage import Work
from tercet.tasks.training.choose import Chooser, by_scores, encoder

if TYPE_CHECKING:
    from tercet.tasks.training.choose import Measure
    from tercet.tasks.training.train import TrainConfig


def _files(config: "TrainConfig") -> dict[str, Path]:
    return find_set_files(config.sts_sets)


def _measure(work: Work, config: "TrainConfig") -> tuple[str, "Measure"]:
    """Spearman of cosine and grade, in percent."""
    assert config.choose is not None
    (task,) = read_sets(config.sts_sets, ("dev",))
    name = f"sts_sets {config.choose.by} dev all spearman"
    return name, by_scores(task, encoder(work, config.precision))


OWN_SET = Chooser(_files, _measure)
