"""The scorers by name. A new one is a module, and a line here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tercet.models.plugins import with_installed
from tercet.tasks.retrieval import round_trip
from tercet.tasks.scoring import evaluator, gense, pair
from tercet.tasks.scoring.score import Measure, Scorer
from tercet.tasks.scoring.select import SelectConfig

UNVERSIONED = True

EVALUATOR = evaluator.SCORER.name
# Measures whose scorer a recipe may name.
MEASURES: Sequence[Measure] = ("similarity", "p_true")


def _uses(scorer: Scorer, config: Any) -> Sequence[object]:
    """The code of a scorer's step: the scorer with its package's code, and what its stage uses."""
    return (scorer, *scorer.stage.uses(config))


SCORERS: Mapping[str, Scorer] = {
    name: replace(scorer, stage=replace(scorer.stage, uses=partial(_uses, scorer)))
    for name, scorer in with_installed(
        "tercet.scorers", (evaluator.SCORER, gense.SCORER, pair.SCORER, round_trip.SCORER)
    ).items()
}


def scorers(score: Mapping[str, Any], evaluator: bool) -> list[str]:
    """The names of a recipe's scorers; the evaluator, if there is one, is always among them."""
    return [*([EVALUATOR] if evaluator else []), *(name for name in score if name != EVALUATOR)]


def find_scorers(
    score: Mapping[str, dict[str, Any] | None], evaluator: bool
) -> dict[str, tuple[Scorer, Any]]:
    """The recipe's scorers by name, each with its settings. Raises ValidationError."""
    chosen = {name: SCORERS[name] for name in scorers(score, evaluator)}
    return {
        name: (scorer, scorer.stage.config.model_validate(score.get(name) or {}))
        for name, scorer in chosen.items()
    }


def unused(score: Mapping[str, Any], select: SelectConfig) -> str | None:
    """A sentence that says which scorers nothing selects by; None if there are none."""
    judged = [] if select.asks_probability else filter_scorers("p_true", score)
    ranked = [] if select.rank_max is not None else filter_scorers("rank", score)
    if not judged and not ranked:
        return None
    unless = [
        *(["select.rank_max sets the last rank accepted"] if ranked else []),
        *(["select.p_min sets the lowest probability accepted"] if judged else []),
        *(["select.prefer is p_true"] if judged else []),
    ]
    return (
        f"Nothing selects by the scores of {', '.join([*judged, *ranked])}: they are only recorded "
        f"unless {', or '.join(unless)}."
    )


def filter_scorers(measure: Measure, names: Iterable[str]) -> list[str]:
    """The scorers among these that give this measure."""
    return [name for name in names if SCORERS[name].measure == measure]
