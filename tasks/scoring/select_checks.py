"""What a recipe says of scorers and of `select` must apply to something: to methods that it uses,
to measures that a scorer gives."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tercet.models.errors import suggest
from tercet.models.generation import Method
from tercet.tasks.scoring.score import Measure, Scorer
from tercet.tasks.scoring.scorers import EVALUATOR, SCORERS, filter_scorers
from tercet.tasks.scoring.select import JUDGED, RANDOM, RelationConfig, SelectConfig, several
from tercet.tasks.synthesis.methods import METHODS

# Message, and the keys that lead to what it is about.
Fault: TypeAlias = tuple[str, tuple[str, ...]]
MEASURES: Sequence[Measure] = ("similarity", "p_true")
# Thresholds of cosines; the general ones have defaults wherever there is an evaluator.
COSINES = ("positive_min", "negative_max")


def scorers(score: Mapping[str, Any], evaluator: bool) -> list[str]:
    """The names of a recipe's scorers, of which the evaluator is one wherever there is one."""
    return [*([EVALUATOR] if evaluator else []), *(name for name in score if name != EVALUATOR)]


def find_scorers(
    score: Mapping[str, dict[str, Any] | None], evaluator: bool
) -> dict[str, tuple[Scorer, Any]]:
    """The recipe's scorers by name, each with its settings. Raises ValidationError."""
    found = {name: SCORERS[name] for name in scorers(score, evaluator)}
    return {
        name: (scorer, scorer.stage.config.model_validate(score.get(name) or {}))
        for name, scorer in found.items()
    }


def find_faults(
    score: Mapping[str, Any], select: SelectConfig, methods: Mapping[str, Method], evaluator: bool
) -> Iterator[Fault]:
    """The faults of `score`, whose scorers exist, and of `select`, each with its place.

    methods: those of the recipe; without any, no threshold of a method can apply.
    evaluator: whether the recipe has one.
    """
    for name in score:
        reads = SCORERS[name].reads
        if {"embeddings", "passage_vectors"} & {*reads} and not evaluator:
            yield (
                f"{name} reads the vectors of an evaluator, and there is none: name one under "
                "`evaluator`, or leave this scorer out",
                ("score", name),
            )
        if "passage_vectors" in reads:
            yield from _of_ranks(name, score[name], methods)
    named = scorers(score, evaluator)
    yield from _of_measures(named, select)
    if select.rank_max is not None and not filter_scorers("rank", named):
        yield (
            "no scorer of this recipe ranks passages for their queries: write `round_trip: {}` "
            "under `score`, or leave rank_max out",
            ("select", "rank_max"),
        )
    if select.rank_max is None and select.rank != "vectors":
        yield (
            "rank names the search whose ranks rank_max bounds, and there is no rank_max: set it, "
            "or leave this key out",
            ("select", "rank"),
        )
    compared = any(method.each == "sentences" for method in methods.values())
    if compared and not filter_scorers("similarity", named):
        yield from _without_similarity(select)
    for relation, thresholds in select.relations.items():
        texts, negative = f"texts of the relation {relation}", relation in ("alters", "other")
        place = ("select", "relations", relation)
        role = "negatives" if negative else "positives"
        said = (texts, f"{texts} are {role}")
        yield from _idle(thresholds, relation, negative, bool(select.swap_roles), said, place)
    for name in select.methods:
        yield from _of_method(name, select, methods)
    for name in select.swap_roles:
        yield from _of_swapped(name, methods)


def _of_ranks(name: str, given: Any, methods: Mapping[str, Method]) -> Iterator[Fault]:
    """A scorer that ranks passages for queries needs queries, and encodes them as passages are."""
    if given:
        yield (
            f"{name} has no settings, since it encodes queries as the passages are encoded: write "
            f"`{name}: {{}}`, and set `embed` and `prompts`",
            ("score", name),
        )
    if all(method.each != "passages" for method in methods.values()):
        yield (
            f"{name} ranks passages for their queries, and no method writes any: list one such as "
            "title under `synthesise`, or leave this scorer out",
            ("score", name),
        )


def _levels(select: SelectConfig) -> list[tuple[RelationConfig | SelectConfig, tuple[str, ...]]]:
    """Where thresholds stand: generally, by relation and by method, each with its place."""
    by_relation = [(own, ("select", "relations", name)) for name, own in select.relations.items()]
    by_method = [(own, ("select", "methods", name)) for name, own in select.methods.items()]
    return [(select, ("select",)), *by_relation, *by_method]


def _without_similarity(select: SelectConfig) -> Iterator[Fault]:
    """Without a cosine some probability must decide, and nothing can be compared with one."""
    if not bounds_probability(select):
        yield (
            "there is no evaluator to score the candidates: name one under `evaluator`, or let a "
            "judge decide (`score.gense`, and select.p_min)",
            ("synthesise",),
        )
    compared = [
        (key, (*place, key))
        for level, place in _levels(select)
        for key in COSINES
        if getattr(level, key) is not None
    ]
    if select.prefer == "similarity":
        compared.append(("prefer: similarity", ("select", "prefer")))
    for what, place in compared:
        yield (
            f"{what} compares cosines, and there is no evaluator to give any: leave it out, or "
            "name one under `evaluator`",
            place,
        )


def _of_measures(names: Sequence[str], select: SelectConfig) -> Iterator[Fault]:
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
    asking = [(*place, "p_min") for own, place in _levels(select) if own.p_min is not None]
    for place in [*asking, *([("select", "prefer")] if select.prefer == "p_true" else [])]:
        yield (
            "no scorer of this recipe gives the probability that a role is right: list one under "
            f"`score` (pair, with a model that fit_pair makes), or leave {place[-1]} out",
            place,
        )


def bounds_probability(select: SelectConfig) -> bool:
    """Whether some texts are refused by the probability that their role is right."""
    return any(own.p_min is not None for own, _ in _levels(select))


def asks_probability(select: SelectConfig) -> bool:
    """Whether the selection reads the probability that a role is right."""
    return bounds_probability(select) or select.prefer == "p_true"


def unused(score: Mapping[str, Any], select: SelectConfig) -> str | None:
    """A sentence that says which scorers nothing selects by; None if there are none."""
    judged = [] if asks_probability(select) else filter_scorers("p_true", score)
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


def _idle(
    thresholds: RelationConfig,
    relation: str,
    negative: bool,
    swapped: bool,
    said: tuple[str, str],
    place: tuple[str, ...],
) -> Iterator[Fault]:
    """Thresholds must apply to the role that the texts have, and to their relation.

    negative: whether the texts are negatives. swapped: positives may become some. said: the texts,
    and that they have this role.
    """
    texts, made = said
    if thresholds.p_min is not None and relation not in JUDGED:
        yield (
            f"p_min never applies, since {texts} neither keep nor alter the meaning: leave it out",
            (*place, "p_min"),
        )
    key = "positive_min" if negative else "negative_max"
    if (negative or not swapped) and getattr(thresholds, key) is not None:
        yield f"{key} never applies, since {made}: leave it out", (*place, key)


def _unknown(name: str, methods: Mapping[str, Method], where: str = "") -> str:
    """What to say of a method that does not exist. where: such as ` in swap_roles`."""
    known = sorted({*METHODS, *methods})
    return f"unknown method {name!r}{where}{suggest(name, known)}; known: {', '.join(known)}"


def _of_method(name: str, select: SelectConfig, methods: Mapping[str, Method]) -> Iterator[Fault]:
    """A method's thresholds must apply to what the method makes."""
    place, method = ("select", "methods", name), methods.get(name) or METHODS.get(name)
    if method is None:
        yield _unknown(name, methods), place
        return
    if methods and name != RANDOM and name not in methods:
        yield (
            f"the recipe does not use the method {name}: add it under `synthesise`, or leave it "
            "out here (--set 'select.methods={}' clears all)",
            place,
        )
    negative, swapped = method.purpose == "negative", name in select.swap_roles
    said = (f"the texts of {name}", f"{name} makes {method.purpose}s")
    yield from _idle(select.methods[name], method.relation, negative, swapped, said, place)


def _of_swapped(name: str, methods: Mapping[str, Method]) -> Iterator[Fault]:
    """Only candidates made as positives may become negatives."""
    place, method = ("select", "swap_roles"), methods.get(name) or METHODS.get(name)
    if method is None:
        yield _unknown(name, methods, " in swap_roles"), place
    elif method.purpose == "negative":
        yield (
            f"{name} alters the meaning, so its candidates are always negatives and never change "
            "roles: leave it out",
            place,
        )
    elif methods and name not in methods:
        yield f"the recipe does not use the method {name}: leave it out of swap_roles", place
