"""The choice of a checkpoint by fact order, on the dev cases of its files."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models.measures import metrics
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.chooser import Chooser, by_vectors
from tercet.tasks.training.train_settings import TrainConfig

if TYPE_CHECKING:
    from tercet.tasks.training.chooser import Measure


def _files(config: TrainConfig) -> dict[str, Path]:
    return find_case_files(config.fact_order)


def _measure(work: Work, config: TrainConfig) -> tuple[str, "Measure"]:
    """The share of dev cases in order, in percent: over several files their mean; and its name."""
    tasks = read_cases(config.fact_order, ("dev",), required=False)
    if not tasks:
        raise BadInput(
            "train.choose.by is fact_order, but no file of evaluate.fact_order has a case of split "
            "dev: give one a column `split`, or choose by retrieval."
        )

    def share_in_order(encoded: Encoded) -> float:
        sides = [(task.anchors, task.rewordings, task.changed) for task in tasks]
        shares = [metrics.in_order(*map(encoded.of, texts)).mean() for texts in sides]
        return 100.0 * float(np.mean(shares))

    name = f"fact_order {tasks[0].name if len(tasks) == 1 else 'mean'} dev all accuracy"
    texts = [text for task in tasks for text in task.sided_texts()]
    return name, by_vectors(work, config, texts, share_in_order)


FACT_ORDER = Chooser(_files, _measure)
