"""The scorers by name. A new one is a module, and a line here."""

from collections.abc import Iterable, Mapping

from tercet.tasks.scoring import evaluator, gense, pair
from tercet.tasks.scoring.score import Measure, Scorer

UNVERSIONED = True

EVALUATOR = evaluator.SCORER.name
SCORERS: Mapping[str, Scorer] = {
    scorer.name: scorer for scorer in (evaluator.SCORER, gense.SCORER, pair.SCORER)
}


def giving(measure: Measure, names: Iterable[str]) -> list[str]:
    """Those of the scorers that give this measure."""
    return [name for name in names if SCORERS[name].measure == measure]
