"""Looks up every model that a recipe names, and whether it can be what it is named as."""

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from tercet.flows.recipe.model import ModelSettings, Recipe
from tercet.flows.recipe.resolved import (
    GENSE,
    Faults,
    Made,
    Misplaced,
    Place,
    Reference,
    Tagged,
    Trained,
    Weights,
)
from tercet.flows.recipe.wording import NAME, nearest
from tercet.models.losses.registry import FREQUENCIES
from tercet.models.weights import PACKAGE_PREFIX
from tercet.storage.runs import TAG_PREFIX
from tercet.tasks.scoring.score import Scorer

# The form of the model that each of these starts from; others start from one of their own form.
_STARTS_FROM = {"vaegpt": "causal", GENSE: "t5"}
# Where a phase names its backbone, these have a meaning already.
_TAKEN = re.compile(r"base|encoder|previous|evaluator|seed\d+")
# A name of the hub that is this close to one of `models:` is taken for a slip.
_ALIKE = 0.8
# A name of the hub holds no colon.
_PREFIXES = (PACKAGE_PREFIX, TAG_PREFIX)
EVALUATOR: Place = ("evaluator",)


def find_models(
    recipe: Recipe, known: Mapping[str, Reference], faults: Faults
) -> dict[Place, Reference]:
    """The model at each place that names one, and at `(evaluator,)` the one that scores.

    known: those under `models:`. faults: takes those that are found.
    """
    found: dict[Place, Reference] = {}
    for place, name in _places(recipe):
        with faults.catch():
            found[place] = _look_up(name, known, place)
    for name, settings in recipe.models.items():
        with faults.catch():
            _check_forms(settings, ("models", name), found)
    if recipe.evaluator is not None:
        fitted = Reference(Made("fit_evaluator"))
        found[EVALUATOR] = found.get(("evaluator", "model"), fitted)
    for index in range(len(recipe.train.phases) if ("backbone",) in found else 0):
        with faults.catch():
            found.update(_find_of_phase(recipe, index, known, found))
    return found


def find_judges(
    scorers: Mapping[str, tuple[Scorer, Any]], known: Mapping[str, Reference], faults: Faults
) -> dict[Place, Reference]:
    """The models that scorers read, by `(score, NAME, SLOT)`.

    faults: takes those that are found.
    """
    found: dict[Place, Reference] = {}
    for scorer, (_, config) in scorers.items():
        for slot, name in (config.models() if hasattr(config, "models") else {}).items():
            with faults.catch():
                found["score", scorer, slot] = _find_judge(scorer, config, name, known)
    return found


def _places(recipe: Recipe) -> Iterator[tuple[Place, str]]:
    """The places that name a model that encodes or writes texts, but those of phases."""
    for name, settings in recipe.models.items():
        for below, other in settings.models().items():
            if settings.maker is not None:
                yield ("models", name, *below), other
    places: list[tuple[Any, Place]] = [
        (recipe, ("backbone",)),
        (recipe.evaluator, ("evaluator", "model")),
        (recipe.awareness, ("awareness", "teacher")),
        (recipe.guard, ("guard", "encoder")),
        (recipe.measure_generators, ("measure_generators", "encoder")),
        (recipe.measure_generators, ("measure_generators", "judge")),
        *((own, ("generators", name, "model")) for name, own in recipe.generators.items()),
    ]
    for settings, place in places:
        named = None if settings is None else getattr(settings, str(place[-1]))
        if named is not None:
            yield place, named


def find_defined(recipe: Recipe) -> dict[str, Reference]:
    """What each name under `models:` stands for; of a taken one, what it takes.

    Raises: Misplaced.
    """
    models = recipe.models
    phases = [phase.name for phase in recipe.train.phases]
    for name, settings in models.items():
        if not NAME.fullmatch(name):
            fault = f"{name!r} is no name for a model: use letters, digits, _ and -"
            raise Misplaced("bad_value", fault, "models", name)
        if _TAKEN.fullmatch(name):
            fault = f"{name} means something else where a model is named: choose another"
            raise Misplaced("conflict", fault, "models", name)
        if name in phases:
            fault = f"a phase has the name {name} too: give one of them another"
            raise Misplaced("conflict", fault, "models", name)
        for place, other in settings.models().items():
            _check_spelling(other, models, ("models", name, *place))
    found: dict[str, Reference] = {}
    for name in _in_order(models):
        own = models[name]
        if own.maker is None:
            found[name] = found.get(own.take or "") or _existing(own.take or "")
        else:
            form = getattr(own.made, "form", None)
            found[name] = Reference(Made(f"{own.maker}.{name}"), own.maker, form, own.made)
    return found


def _in_order(models: Mapping[str, ModelSettings]) -> list[str]:
    """The names, each after those that it needs."""
    needs = {
        name: [other for other in settings.models().values() if other in models]
        for name, settings in models.items()
    }
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = error.args[1][:0:-1]
        start = circle.index(next(name for name in models if name in circle))
        chain = [*circle[start:], *circle[:start], circle[start]]
        slots = models[chain[0]].models().items()
        place = next(below for below, other in slots if other == chain[1])
        fault = f"models that need each other can never be made: {' → '.join(chain)}"
        raise Misplaced("conflict", fault, "models", chain[0], *place) from None


def _existing(name: str) -> Reference:
    if name.startswith(TAG_PREFIX):
        return Reference(Tagged(name.removeprefix(TAG_PREFIX)))
    return Reference(Weights(name))


def _check_spelling(name: str, known: Mapping[str, Any], place: Place) -> None:
    """Raises Misplaced for a name that is most likely a misspelt one."""
    if name in known:
        return
    if alike := nearest(name, known, _ALIKE):
        fault = f"there is no model {name!r} under `models`; the nearest is {alike!r}"
        raise Misplaced("unknown_name", fault, *place)
    prefix, colon, _ = name.partition(":")
    if not colon or f"{prefix}:" in _PREFIXES or "/" in prefix or Path(name).exists():
        return
    raise Misplaced(
        "bad_value",
        f"{name!r} has the unknown prefix {prefix + colon!r}: a model may begin with "
        f"{' or '.join(_PREFIXES)}, or is a directory, or a name on the hub",
        *place,
    )


def _look_up(name: str, known: Mapping[str, Reference], place: Place) -> Reference:
    """A model that encodes or writes texts, or at a place for frequencies counts of tokens."""
    _check_spelling(name, known, place)
    found = known.get(name) or _existing(name)
    if found.maker == "fit_pair":
        raise Misplaced(
            "unfit_model",
            f"{name!r} judges pairs of vectors and neither encodes nor writes texts: name it under "
            "`score.pair` alone",
            *place,
        )
    if found.maker == "count_tokens" and place[-1] != FREQUENCIES:
        fault = f"{name!r} counts tokens, which is no model that could stand here: name another"
        raise Misplaced("unfit_model", fault, *place)
    return found


def _check_forms(settings: ModelSettings, place: Place, found: Mapping[Place, Reference]) -> None:
    """A model starts from one of its form, and is judged by one, where the recipe makes that."""
    form = getattr(settings.made, "form", None)
    if form is None:
        return
    needed = _STARTS_FROM.get(form, form)
    for below, name in settings.models().items():
        before = getattr(found.get((*place, *below)), "form", None)
        if before not in (None, needed):
            takes = "starts from" if below[-1] == "init" else "is judged by"
            raise Misplaced(
                "unfit_model",
                f"the model {name!r} has the form {before}, but a model of form {form} "
                f"{takes} one of form {needed}",
                *(*place, *below),
            )


def _find_of_phase(
    recipe: Recipe, index: int, known: Mapping[str, Reference], found: Mapping[Place, Reference]
) -> Iterator[tuple[Place, Reference]]:
    """The models that a phase starts from, or that its losses read: they must exist before it."""
    phase = recipe.train.phases[index]
    of_phase: Place = ("train", "phases", index)
    earlier = [other.name for other in recipe.train.phases[:index]]
    fixed = {name: Reference(Trained(name)) for name in earlier}
    fixed["base"] = found["backbone",]
    fixed["previous"] = fixed[earlier[-1]] if earlier else fixed["base"]
    named: list[tuple[str, Place]] = [(phase.backbone, (*of_phase, "backbone"))]
    for number, part in enumerate(phase.parts):
        place: Place = (*of_phase, "parts", number, "models")
        named += [(name, (*place, slot)) for slot, name in part.models.items()]
    for name, place in named:
        if name == "evaluator":
            if EVALUATOR not in found:
                raise Misplaced(
                    "missing_key",
                    "there is no evaluator to take: name one under `evaluator`, or leave this key "
                    "out",
                    *place,
                )
            fixed[name] = found[EVALUATOR]
        if name in [later.name for later in recipe.train.phases[index:]]:
            raise Misplaced(
                "conflict",
                f"the phase {name!r} does not come before this one: name an earlier phase",
                *place,
            )
        given = name in fixed or name in known
        if not given and (alike := nearest(name, earlier, _ALIKE)):
            raise Misplaced(
                "unknown_name", f"there is no phase {name!r}; the nearest is {alike!r}", *place
            )
        model = fixed.get(name) or _look_up(name, known, place)
        if place[-1] == FREQUENCIES and given and model.maker != "count_tokens":
            raise Misplaced(
                "unfit_model",
                f"{name!r} is a model, but the loss reads counts of tokens: name one that "
                "count_tokens makes",
                *place,
            )
        yield place, model


def _find_judge(scorer: str, config: Any, name: str, known: Mapping[str, Reference]) -> Reference:
    """The model of a scorer, which must be made by what it needs."""
    place: Place = ("score", scorer, "model")
    _check_spelling(name, known, place)
    found = known.get(name) or _existing(name)
    needed = getattr(config, "made_by", None)
    if needed is not None and found.maker != needed:
        fault = f"{name!r} is not one of `models` that {needed} makes: name one"
        raise Misplaced("unfit_model", fault, *place)
    if found.form == GENSE and getattr(config, "question", None):
        raise Misplaced(
            "no_effect",
            f"{name!r} judges in the words that it was fitted to: leave this key out, or give them "
            "as its fit_generator.question",
            *("score", scorer, "question"),
        )
    if needed is None and found.maker and found.form != GENSE:
        raise Misplaced(
            "unfit_model",
            f"{name!r} judges nothing: name a model that fit_generator makes with form: {GENSE}",
            *place,
        )
    return found
