"""Checks a recipe's scorers and selection against its synthesis methods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from tercet.flows.recipe.wording import of_parameter
from tercet.models.generation import Method
from tercet.models.spelling import suggest
from tercet.tasks.scoring.pairing import RANDOM
from tercet.tasks.scoring.score import Scorer
from tercet.tasks.scoring.scorers import EVALUATOR, SCORERS, filter_scorers
from tercet.tasks.scoring.select import JUDGED, MethodConfig, RelationConfig, SelectConfig, several
from tercet.tasks.synthesis.methods import METHOD_NAMES, METHODS

Place = tuple[str, ...]
MEASURES: Sequence[Literal["similarity", "p_true"]] = ("similarity", "p_true")
# Thresholds of cosines; the general ones have defaults wherever there is an evaluator.
COSINES = ("positive_min", "negative_min", "negative_max")


def scorers(score: Mapping[str, Any], evaluator: bool) -> list[str]:
    """The names of a recipe's scorers, of which the evaluator is one wherever there is one."""
    return [*([EVALUATOR] if evaluator else []), *(name for name in score if name != EVALUATOR)]


def find_scorers(
    score: Mapping[str, dict[str, Any] | None], evaluator: bool
) -> dict[str, tuple[Scorer, Any]]:
    """The recipe's scorers by name, each with its settings. score: without faults."""
    found = {name: SCORERS[name] for name in scorers(score, evaluator)}
    return {
        name: (scorer, scorer.stage.config.model_validate(score.get(name) or {}))
        for name, scorer in found.items()
    }


def faults(
    score: Mapping[str, dict[str, Any] | None],
    select: SelectConfig,
    synthesised: Mapping[str, Method],
    evaluator: bool,
) -> Iterator[tuple[str, Place]]:
    """The faults of `score` and `select`, each with its place in the recipe.

    synthesised: the recipe's methods; without any, no method threshold can apply. evaluator:
        whether the recipe has one.
    """
    for name, given in score.items():
        if name not in SCORERS:
            known, near = ", ".join(SCORERS), suggest(name, SCORERS)
            yield f"unknown scorer {name!r}{near}; known: {known}", ("score", name)
            return
        try:
            SCORERS[name].stage.config.model_validate(given or {})
        except ValidationError as error:
            first = error.errors()[0]
            place = tuple(map(str, first["loc"]))
            yield f"{name}: {of_parameter(first)}", ("score", name, *place)
        if "embeddings" in SCORERS[name].reads and not evaluator:
            yield (
                f"{name} reads the vectors of an evaluator, and there is none: name one under "
                "`evaluator`, or leave this scorer out",
                ("score", name),
            )
    named = scorers(score, evaluator)
    yield from _measures(named, select)
    if synthesised and not filter_scorers("similarity", named):
        yield from _without_similarity(select)
    for relation, thresholds in select.relations.items():
        texts = f"texts of the relation {relation}"
        negative = relation in ("alters", "other")
        swapped = bool(select.swap_roles)
        place = ("select", "relations", relation)
        yield from _idle(thresholds, relation, negative, swapped, (texts, f"{texts} are"), place)
    if select.pairing == "relation" and select.fallback_negative:
        yield (
            "with pairing: relation a row without a negative keeps none, so fallback_negative "
            "never applies: leave it out",
            ("select", "fallback_negative"),
        )
    for name, settings in select.methods.items():
        yield from _method(name, settings, select, synthesised)
    for name in select.swap_roles:
        yield from _swapped(name, synthesised)


def _levels(select: SelectConfig) -> list[tuple[RelationConfig | SelectConfig, Place]]:
    """Where thresholds stand: generally, by relation and by method, each with its place."""
    levels: list[tuple[RelationConfig | SelectConfig, Place]] = [(select, ())]
    levels += [(own, ("relations", name)) for name, own in select.relations.items()]
    return levels + [(own, ("methods", name)) for name, own in select.methods.items()]


def _without_similarity(select: SelectConfig) -> Iterator[tuple[str, Place]]:
    """Without a cosine some probability must decide, and what compares cosines means nothing."""
    if not bounds_probability(select):
        yield (
            "there is no evaluator to score the candidates: name one under `evaluator`, or let a "
            "judge decide (`score.gense`, and select.p_min)",
            ("synthesise",),
        )
    compared: list[tuple[str, Place]] = [
        (key, (*place, key))
        for level, place in _levels(select)
        for key in COSINES
        if getattr(level, key) is not None
    ]
    if select.prefer == "similarity":
        compared.append(("prefer: similarity", ("prefer",)))
    for what, place in compared:
        yield (
            f"{what} compares cosines, and there is no evaluator to give any: leave it out, or "
            "name one under `evaluator`",
            ("select", *place),
        )


def _measures(names: Sequence[str], select: SelectConfig) -> Iterator[tuple[str, Place]]:
    """Each requested measure must have one scorer."""
    for measure in MEASURES:
        own, named = filter_scorers(measure, names), getattr(select, measure)
        if named is not None and named not in own:
            known = f"only {', '.join(own)} does" if own else "no scorer of this recipe does"
            yield (
                f"{named!r} does not give {measure}, {known}: list a scorer that does under "
                "`score`, or leave the key out",
                ("select", measure),
            )
        if named is None and len(own) > 1:
            yield several(measure, own), ("select", measure)
    if filter_scorers("p_true", names):
        return
    levels = _levels(select)
    keys: list[Place] = [(*place, "p_min") for own, place in levels if own.p_min is not None]
    if select.prefer == "p_true":
        keys.append(("prefer",))
    for key in keys:
        yield (
            "no scorer of this recipe gives the probability that a role is right: list one under "
            f"`score` (pair, with a model that fit_pair makes), or leave {key[-1]} out",
            ("select", *key),
        )


def bounds_probability(select: SelectConfig) -> bool:
    """Whether some texts are refused by the probability that their role is right."""
    return any(own.p_min is not None for own, _ in _levels(select))


def asks_probability(select: SelectConfig) -> bool:
    """Whether the selection reads the probability that a role is right."""
    return bounds_probability(select) or select.prefer == "p_true"


def unused(score: Mapping[str, Any], select: SelectConfig) -> str | None:
    """A sentence that says which scorers nothing selects by; None if there are none."""
    idle = [] if asks_probability(select) else filter_scorers("p_true", score)
    if not idle:
        return None
    return (
        f"Nothing selects by the scores of {', '.join(idle)}: they are only recorded "
        "unless select.p_min sets the lowest probability accepted, or select.prefer is p_true."
    )


def _idle(
    settings: RelationConfig,
    relation: str,
    negative: bool,
    swapped: bool,
    said: tuple[str, str],
    place: Place,
) -> Iterator[tuple[str, Place]]:
    """Thresholds must apply to the role that the texts have, and to their relation.

    negative: whether the texts are negatives. swapped: positives may become some. said: the texts,
        and the words before the role that they have.
    """
    texts, made = said
    if settings.p_min is not None and relation not in JUDGED:
        yield (
            f"p_min never applies, since {texts} neither keep nor alter the meaning: leave it out",
            (*place, "p_min"),
        )
    foreign = () if swapped else ("negative_min", "negative_max")
    for key in ("positive_min",) if negative else foreign:
        if getattr(settings, key) is not None:
            role = "negatives" if negative else "positives"
            yield f"{key} never applies, since {made} {role}: leave it out", (*place, key)


def _unknown(name: str, synthesised: Mapping[str, Method], where: str = "") -> str:
    """What to say of a method that does not exist. where: such as ` in swap_roles`."""
    names = {*METHOD_NAMES, *synthesised}
    known = ", ".join(sorted(names))
    return f"unknown method {name!r}{where}{suggest(name, names)}; known: {known}"


def _named(name: str, synthesised: Mapping[str, Method]) -> Method | None:
    """The recipe's method of that name, or else ours."""
    return synthesised.get(name) or METHODS.get(name)


def _method(
    name: str, settings: MethodConfig, select: SelectConfig, synthesised: Mapping[str, Method]
) -> Iterator[tuple[str, Place]]:
    """A method's thresholds must apply to what the method makes."""
    place = ("select", "methods", name)
    method = _named(name, synthesised)
    if method is None:
        yield _unknown(name, synthesised), place
        return
    if synthesised and name != RANDOM and name not in synthesised:
        yield (
            f"the recipe does not use the method {name}: add it under `synthesise`, or leave it "
            "out here (--set 'select.methods={}' clears all)",
            place,
        )
    said, negative = (f"the texts of {name}", f"{name} makes"), method.purpose == "negative"
    swapped = name in select.swap_roles
    yield from _idle(settings, method.relation, negative, swapped, said, place)


def _swapped(name: str, synthesised: Mapping[str, Method]) -> Iterator[tuple[str, Place]]:
    """Only candidates made as positives may become negatives."""
    place = ("select", "swap_roles")
    method = _named(name, synthesised)
    if method is None:
        yield _unknown(name, synthesised, " in swap_roles"), place
    elif method.purpose == "negative":
        yield (
            f"{name} alters the meaning, so its candidates are always negatives and never change "
            "roles: leave it out",
            place,
        )
    elif synthesised and name not in synthesised:
        yield f"the recipe does not use the method {name}: leave it out of swap_roles", place
