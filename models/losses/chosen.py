"""A loss as a recipe names it, with its numbers checked by its own model and filled in."""

from typing import Any

from tercet.models.losses.loss import Loss, Params
from tercet.models.losses.registry import LOSSES, loss_named


def chosen(content: Any, default: str | None = None) -> dict[str, Any]:
    """The loss's name and all of its numbers, from a name alone or a mapping of both.

    default: the name where the mapping has none. Raises ValueError with one sentence.
    """
    if isinstance(content, str):
        content = {"name": content}
    if not isinstance(content, dict):
        raise ValueError("name a loss, or give a mapping of its name and its parameters")
    name = content.get("name", default)
    if name is None:
        raise ValueError(f"name the loss: one of {', '.join(LOSSES)}")
    if not isinstance(name, str) or name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}; known: {', '.join(LOSSES)}")
    return {"name": name, **numbers(content, name).model_dump(mode="json")}


def numbers(content: dict[str, Any], name: str | None = None) -> Params:
    """The numbers of a loss that is given as a mapping."""
    given = {key: value for key, value in content.items() if key != "name"}
    return loss_named(name or content["name"]).params.model_validate(given)


def loss_of(content: dict[str, Any]) -> Loss:
    """The loss of such a mapping, as it is with these numbers."""
    return loss_named(content["name"]).with_numbers(numbers(content))
