"""The scorers by name. No stage's code imports this, so a new line reruns nothing."""

import importlib
from collections.abc import Iterable, Mapping

from tercet.tasks.scoring.score import Measure, Scorer

EVALUATOR = "evaluator"
SCORERS: Mapping[str, str] = {
    EVALUATOR: "tercet.tasks.scoring.evaluator",
    "gense": "tercet.tasks.scoring.gense",
    "pair": "tercet.tasks.scoring.pair",
}


def scorer_named(name: str) -> Scorer:
    """The scorer of that name. Raises ValueError if there is none."""
    if name not in SCORERS:
        known = ", ".join(SCORERS)
        raise ValueError(f"there is no scorer {name!r}; known: {known}")
    found: Scorer = importlib.import_module(SCORERS[name]).SCORER
    return found


def giving(measure: Measure, names: Iterable[str]) -> list[str]:
    """Those of the scorers that give this measure."""
    return [name for name in names if scorer_named(name).measure == measure]
