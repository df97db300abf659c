"""Checks a recipe's scorers and selection against its synthesis methods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from tercet.flows.recipe.wording import nearest_said, of_parameter
from tercet.models.generation import Relation
from tercet.tasks.scoring.pairing import RANDOM
from tercet.tasks.scoring.scorers import EVALUATOR, SCORERS, giving, scorer_named
from tercet.tasks.scoring.select import JUDGED, MethodConfig, RelationConfig, SelectConfig, several
from tercet.tasks.synthesis.methods import METHOD_NAMES, method_of

Place = tuple[str, ...]
MEASURES: Sequence[Literal["similarity", "p_true"]] = ("similarity", "p_true")
# Thresholds of cosines; the general ones have defaults wherever there is an evaluator.
COSINES = ("positive_min", "negative_min", "negative_max")


def scorers(score: Mapping[str, Any], evaluator: bool) -> list[str]:
    """The names of a recipe's scorers, of which the evaluator is one wherever there is one."""
    return [*([EVALUATOR] if evaluator else []), *(name for name in score if name != EVALUATOR)]


def faults(
    score: Mapping[str, dict[str, Any] | None],
    select: SelectConfig,
    synthesised: Sequence[str],
    evaluator: bool,
) -> Iterator[tuple[str, Place]]:
    """The faults of `score` and `select`, each with its place in the recipe.

    synthesised: the recipe's methods; without any, no method threshold can apply. evaluator:
        whether the recipe has one.
    """
    for name, given in score.items():
        if name not in SCORERS:
            known = ", ".join(SCORERS)
            yield f"unknown scorer {name!r}; known: {known}", ("score", name)
            return
        try:
            scorer_named(name).stage.config.model_validate(given or {})
        except ValidationError as error:
            first = error.errors()[0]
            place = tuple(map(str, first["loc"]))
            yield f"{name}: {of_parameter(first)}", ("score", name, *place)
        if "embeddings" in scorer_named(name).reads and not evaluator:
            yield (
                f"{name} reads the vectors of an evaluator, and there is none: name one under "
                "`evaluator`, or leave this scorer out",
                ("score", name),
            )
    named = scorers(score, evaluator)
    yield from _measures(named, select)
    if synthesised and not giving("similarity", named):
        yield from _without_similarity(select)
    for relation, thresholds in select.relations.items():
        yield from _relation(relation, thresholds, select)
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


def _without_similarity(select: SelectConfig) -> Iterator[tuple[str, Place]]:
    """Without a cosine some probability must decide, and what compares cosines means nothing."""
    if not bounds_probability(select):
        yield (
            "there is no evaluator to score the candidates: name one under `evaluator`, or let a "
            "judge decide (`score.gense`, and select.p_min)",
            ("synthesise",),
        )
    levels: list[tuple[RelationConfig | SelectConfig, Place]] = [(select, ())]
    levels += [(own, ("relations", name)) for name, own in select.relations.items()]
    levels += [(own, ("methods", name)) for name, own in select.methods.items()]
    for level, place in levels:
        for key in COSINES:
            if getattr(level, key) is not None:
                yield _no_cosine(key, (*place, key))
    if select.prefer == "similarity":
        yield _no_cosine("prefer: similarity", ("prefer",))


def _no_cosine(what: str, place: Place) -> tuple[str, Place]:
    return (
        f"{what} compares cosines, and there is no evaluator to give any: leave it out, or name "
        "one under `evaluator`",
        ("select", *place),
    )


def _measures(names: Sequence[str], select: SelectConfig) -> Iterator[tuple[str, Place]]:
    """Each requested measure must have one scorer."""
    for measure in MEASURES:
        own, named = giving(measure, names), getattr(select, measure)
        if named is not None and named not in own:
            known = f"only {', '.join(own)} does" if own else "no scorer of this recipe does"
            yield (
                f"{named!r} does not give {measure}, {known}: list a scorer that does under "
                "`score`, or leave the key out",
                ("select", measure),
            )
        if named is None and len(own) > 1:
            yield several(measure, own), ("select", measure)
    if giving("p_true", names):
        return
    asking: list[Place] = [()] if select.p_min is not None else []
    asking += [("methods", n) for n, own in select.methods.items() if own.p_min is not None]
    asking += [("relations", n) for n, own in select.relations.items() if own.p_min is not None]
    keys: list[Place] = [(*place, "p_min") for place in asking]
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
    others: list[RelationConfig] = [*select.relations.values(), *select.methods.values()]
    return select.p_min is not None or any(own.p_min is not None for own in others)


def asks_probability(select: SelectConfig) -> bool:
    """Whether the selection reads the probability that a role is right."""
    return bounds_probability(select) or select.prefer == "p_true"


def unused(score: Mapping[str, Any], select: SelectConfig) -> str | None:
    """A sentence that says which scorers nothing selects by; None if there are none."""
    idle = [] if asks_probability(select) else giving("p_true", score)
    if not idle:
        return None
    return (
        f"Nothing selects by the scores of {', '.join(idle)}: they are only recorded "
        "unless select.p_min sets the lowest probability accepted, or select.prefer is p_true."
    )


def _relation(
    relation: Relation, settings: RelationConfig, select: SelectConfig
) -> Iterator[tuple[str, Place]]:
    """A relation's thresholds must apply to the role that its texts have."""
    negative = relation in ("alters", "other")
    if settings.p_min is not None and relation not in JUDGED:
        yield _unjudged(f"texts of the relation {relation}", ("select", "relations", relation))
    foreign = ["positive_min"] if negative else ["negative_min", "negative_max"]
    if not negative and select.swap_roles:
        return
    for key in foreign:
        if getattr(settings, key) is not None:
            made = "negatives" if negative else "positives"
            yield (
                f"{key} never applies, since texts of the relation {relation} are {made}: leave it "
                "out",
                ("select", "relations", relation, key),
            )


def _unjudged(what: str, place: Place) -> tuple[str, Place]:
    """The fault of a `p_min` for what is neither true nor false."""
    return (
        f"p_min never applies, since {what} neither keep nor alter the meaning: leave it out",
        (*place, "p_min"),
    )


def _method(
    name: str, settings: MethodConfig, select: SelectConfig, synthesised: Sequence[str]
) -> Iterator[tuple[str, Place]]:
    """A method's thresholds must apply to what the method makes."""
    place = ("select", "methods", name)
    if name not in METHOD_NAMES:
        known = ", ".join(sorted(METHOD_NAMES))
        yield f"unknown method {name!r}{nearest_said(name, METHOD_NAMES)}; known: {known}", place
        return
    if synthesised and name != RANDOM and name not in synthesised:
        yield (
            f"the recipe does not use the method {name}: add it under `synthesise`, or leave it "
            "out here (--set 'select.methods={}' clears all)",
            place,
        )
    if settings.p_min is not None and method_of(name).relation not in JUDGED:
        yield _unjudged(f"the texts of {name}", place)
    if method_of(name).purpose == "negative":
        foreign = ["positive_min"]
    elif name in select.swap_roles:
        foreign = []
    else:
        foreign = ["negative_min", "negative_max"]
    for key in foreign:
        if getattr(settings, key) is not None:
            made = f"{method_of(name).purpose}s"
            yield f"{key} never applies, since {name} makes {made}: leave it out", (*place, key)


def _swapped(name: str, synthesised: Sequence[str]) -> Iterator[tuple[str, Place]]:
    """Only candidates made as positives may become negatives."""
    place = ("select", "swap_roles")
    if name not in METHOD_NAMES:
        known = ", ".join(sorted(METHOD_NAMES))
        near = nearest_said(name, METHOD_NAMES)
        yield f"unknown method {name!r} in swap_roles{near}; known: {known}", place
    elif method_of(name).purpose == "negative":
        yield (
            f"{name} alters the meaning, so its candidates are always negatives and never change "
            "roles: leave it out",
            place,
        )
    elif synthesised and name not in synthesised:
        yield f"the recipe does not use the method {name}: leave it out of swap_roles", place
