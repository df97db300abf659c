"""A loss that stands around another one: how a recipe names that, and what it passes on."""

from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from tercet.models.losses.loss import Loss

_WRITTEN = {
    "anyOf": [
        {"type": "string"},
        {"properties": {"name": {"type": "string"}}, "required": ["name"], "type": "object"},
    ]
}


def fill_other(content: Any) -> dict[str, Any]:
    """Name and parameters of the loss within. Raises ValueError with one sentence."""
    # The registry imports the losses that stand around others.
    from tercet.models.losses.registry import fill_loss, loss_of

    other = fill_loss(content)
    loss = loss_of(other)
    if loss.around or loss.slots or loss.keeps or loss.texts[:2] != ("anchor", "positive"):
        raise ValueError(
            f"another loss cannot stand around the loss {loss.name}: take one that contrasts "
            "anchors and positives, such as info_nce"
        )
    return other


Other: TypeAlias = Annotated[dict[str, Any], BeforeValidator(fill_other), WithJsonSchema(_WRITTEN)]


def around(loss: Loss, other: Loss) -> Loss:
    """The loss with the rows that the one within reads."""
    return replace(
        loss,
        texts=other.texts,
        optional=other.optional,
        labels=other.labels,
        may_read=other.may_read,
        around=(other.name, *other.around),
    )
