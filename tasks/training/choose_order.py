"""The choice of a checkpoint by fact order, on the dev cases of its files."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models.measures import metrics
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.choose import Chooser, encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.tasks.training.choose import Measure
    from tercet.tasks.training.train import TrainConfig


def _files(config: "TrainConfig") -> dict[str, Path]:
    return find_case_files(config.fact_order)


def _measure(work: Work, config: "TrainConfig") -> tuple[str, "Measure"]:
    """The share of dev cases in order, in percent: over several files their mean; and its name."""
    encode = encoder(work, config.precision)
    tasks = read_cases(config.fact_order, ("dev",), required=False)
    if not tasks:
        raise BadInput(
            "train.choose.by is fact_order, but no file of evaluate.fact_order has a case of split "
            "dev: give one a column `split`, or choose by retrieval."
        )
    texts = list(dict.fromkeys(text for task in tasks for text in task.texts()))
    places = {text: place for place, text in enumerate(texts)}

    def measure(model: "SentenceTransformer") -> float | None:
        vectors = encode(model, texts)
        if not np.isfinite(vectors).all():
            return None
        shares = []
        for task in tasks:
            anchor, near, far = (
                vectors[[places[text] for text in side]]
                for side in (task.anchors, task.rewordings, task.changed)
            )
            shares.append(metrics.in_order(anchor, near, far).mean())
        return 100.0 * float(np.mean(shares))

    return f"fact_order {tasks[0].name if len(tasks) == 1 else 'mean'} dev all accuracy", measure


FACT_ORDER = Chooser(_files, _measure)
