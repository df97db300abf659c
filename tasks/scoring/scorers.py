"""The scorers by name. A new one is a module, and a line here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tercet.models.plugins import with_installed
from tercet.tasks.retrieval import round_trip
from tercet.tasks.scoring import evaluator, gense, pair
from tercet.tasks.scoring.score import Measure, Scorer

UNVERSIONED = True

EVALUATOR = evaluator.SCORER.name


def _uses(scorer: Scorer, config: Any) -> Sequence[object]:
    """A scorer's step has the scorer's code, all that its package has of it too."""
    return (scorer, *scorer.stage.uses(config))


SCORERS: Mapping[str, Scorer] = {
    name: replace(scorer, stage=replace(scorer.stage, uses=partial(_uses, scorer)))
    for name, scorer in with_installed(
        "tercet.scorers", (evaluator.SCORER, gense.SCORER, pair.SCORER, round_trip.SCORER)
    ).items()
}


def filter_scorers(measure: Measure, names: Iterable[str]) -> list[str]:
    """Those of the scorers that give this measure."""
    return [name for name in names if SCORERS[name].measure == measure]
