"""Checks what the marks of a recipe's fields ask for, at any depth."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from tercet.flows.recipe.faults import Idle, Misplaced, Place
from tercet.flows.recipe.model import Recipe
from tercet.models.config import Config
from tercet.tasks.config import FACTS, WIRED, marked, needs_of
from tercet.tasks.scoring.score import Measure
from tercet.tasks.scoring.scorers import SCORERS, filter_scorers, scorers
from tercet.tasks.synthesis.methods import method_of


def configs(value: Any, place: Place = ()) -> Iterator[tuple[Place, Config]]:
    """The config itself and all below it, each with its place in the recipe."""
    members: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, Config):
        yield place, value
        fields = type(value).model_fields
        members = ((fields[name].alias or name, member) for name, member in value)
    elif isinstance(value, Mapping):
        members = iter(value.items())
    elif isinstance(value, list | tuple):
        members = enumerate(value)
    for key, member in members:
        yield from configs(member, (*place, key))


def find_wired(recipe: Recipe) -> Iterator[Misplaced]:
    """A fault for each key that only the compiler fills in."""
    for place, config in configs(recipe):
        for name in marked(config, WIRED):
            if name in config.model_fields_set:
                fault = "other keys of the recipe say this: leave it out"
                yield Misplaced("unknown_key", fault, *place, name)


def find_facts(recipe: Recipe) -> set[str]:
    """The names of the FACTS that hold for the recipe."""
    # A recipe that neither trains nor makes a model lacks `train`: report that fault alone.
    makes = any(model.maker is not None for model in recipe.models.values())
    trains = bool(recipe.train.phases or recipe.whiten) or not makes
    evaluator = recipe.evaluator is not None
    methods = []
    for name, settings in recipe.synthesise.items():
        with suppress(ValueError):
            methods.append(method_of(name, settings))
    named = [name for name in scorers(recipe.score, evaluator) if name in SCORERS]
    holds = {
        "trains": trains,
        "starts": trains or recipe.ingest.passages is not None,
        "judges": trains or any(model.fit_pair is not None for model in recipe.models.values()),
        "sentences": bool(recipe.unlabelled),
        "dev": recipe.ingest.dev > 0,
        "evaluator": evaluator,
        "compares": evaluator or recipe.guard.encoder is not None,
        "topical": any(one.relation == "topic" and one.each == "sentences" for one in methods),
        **{measure: bool(filter_scorers(measure, named)) for measure in get_args(Measure)},
        "rank_max": recipe.select.rank_max is not None,
        "generators": bool(recipe.generators),
    }
    return {fact for fact, true in holds.items() if true}


def settle(recipe: Recipe) -> tuple[Recipe, list[Idle]]:
    """The recipe without keys that have no effect, and a note for each that it sets.

    A key that goes may leave another without effect.
    """
    notes: list[Idle] = []
    while (settled := _settled(recipe, (), find_facts(recipe), notes)) is not recipe:
        recipe = settled
    return recipe, notes


def _settled(value: Any, place: Place, facts: Collection[str], notes: list[Idle]) -> Any:
    """The value without keys that lack a fact; the same object if there are none."""
    if isinstance(value, Mapping):
        below = {key: _settled(one, (*place, key), facts, notes) for key, one in value.items()}
        return below if any(below[key] is not one for key, one in value.items()) else value
    if not isinstance(value, Config):
        return value
    changes: dict[str, Any] = {}
    for name, field in type(value).model_fields.items():
        member, path = getattr(value, name), (*place, name)
        needs = [need for need in needs_of(field) if need.fact not in facts]
        instead = field.get_default(call_default_factory=True)
        for need in needs:
            instead = instead if need.instead is ... else need.instead
            if member == instead or (need.values and member not in need.values):
                continue
            if name in value.model_fields_set:
                what = f"{member} " if need.values else ""
                notes.append(Idle(f"{what}has no effect without {FACTS[need.fact]}", *path))
            member = changes[name] = instead
        if name not in changes and (below := _settled(member, path, facts, notes)) is not member:
            changes[name] = below
    return value.model_copy(update=changes) if changes else value


def as_written(recipe: Recipe) -> dict[str, Any]:
    """The recipe in JSON's types, with defaults and without keys that the compiler fills in."""
    content = recipe.model_dump(mode="json")
    for place, config in configs(recipe):
        if names := marked(config, WIRED):
            below: Any = content
            for key in place:
                below = below[key]
            for name in names:
                del below[name]
    return content
