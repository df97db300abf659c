"""The losses by name, and a loss as a recipe names it. A new one is a module, and a line here."""

from collections.abc import Mapping
from typing import Any

from tercet.models.errors import suggest
from tercet.models.losses import (
    definition,
    gaussian_decay,
    guided,
    info_nce,
    matryoshka,
    nt_xent,
    pairwise_logistic,
    token_reconstruction,
)
from tercet.models.losses.loss import Loss, Params
from tercet.models.plugins import with_installed

UNVERSIONED = True

LOSSES: Mapping[str, Loss] = with_installed(
    "tercet.losses",
    (
        definition.LOSS,
        gaussian_decay.LOSS,
        guided.LOSS,
        info_nce.LOSS,
        matryoshka.LOSS,
        nt_xent.LOSS,
        pairwise_logistic.LOSS,
        token_reconstruction.LOSS,
    ),
)


def loss_named(name: Any) -> Loss:
    """The loss of that name. Raises ValueError if there is none."""
    if not isinstance(name, str):
        raise ValueError(f"there is no loss {name!r}: choose one of {', '.join(LOSSES)}")
    if name not in LOSSES:
        near = suggest(name, LOSSES)
        raise ValueError(f"there is no loss {name!r}{near}: choose one of {', '.join(LOSSES)}")
    return LOSSES[name]


def fill_loss(content: Any, default: str | None = None) -> dict[str, Any]:
    """The loss's name and all of its parameters, from a name alone or a mapping of both.

    default: the name where the mapping has none. Raises ValueError with one sentence.
    """
    if isinstance(content, str):
        content = {"name": content}
    if not isinstance(content, dict):
        raise ValueError("name a loss, or give a mapping of its name and its parameters")
    name = content.get("name", default)
    if name is None:
        raise ValueError(f"name the loss: one of {', '.join(LOSSES)}")
    return {"name": name, **params_of({**content, "name": name}).model_dump(mode="json")}


def params_of(content: Mapping[str, Any]) -> Params:
    """The parameters of a loss that is given as a mapping with its name."""
    given = {key: value for key, value in content.items() if key != "name"}
    return loss_named(content["name"]).params.model_validate(given)


def loss_of(content: Mapping[str, Any]) -> Loss:
    """The loss of such a mapping, as it is with these parameters."""
    return loss_named(content["name"]).with_params(params_of(content))
