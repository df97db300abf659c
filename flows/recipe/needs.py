"""What the marks of a recipe's fields ask for, wherever they stand in it."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tercet.flows.recipe.resolved import Misplaced, Place
from tercet.tasks.config import WIRED, marked


def configs(value: Any, place: Place = ()) -> Iterator[tuple[Place, BaseModel]]:
    """The config itself and all below it, each with its place in the recipe."""
    members: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, BaseModel):
        yield place, value
        fields = type(value).model_fields
        members = ((fields[name].alias or name, member) for name, member in value)
    elif isinstance(value, Mapping):
        members = iter(value.items())
    elif isinstance(value, list | tuple):
        members = enumerate(value)
    for key, member in members:
        yield from configs(member, (*place, key))


def find_wired(recipe: BaseModel) -> Iterator[Misplaced]:
    """A fault for each key that only the compiler fills in."""
    for place, config in configs(recipe):
        for name in marked(config, WIRED):
            if name in config.model_fields_set:
                fault = "other keys of the recipe say this: leave it out"
                yield Misplaced("unknown_key", fault, *place, name)


def as_written(recipe: BaseModel) -> dict[str, Any]:
    """The recipe in JSON's types, with its defaults and without what the compiler fills in."""
    content = recipe.model_dump(mode="json")
    for place, config in configs(recipe):
        if names := marked(config, WIRED):
            below: Any = content
            for key in place:
                below = below[key]
            for name in names:
                del below[name]
    return content
