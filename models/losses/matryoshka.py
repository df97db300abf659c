"""A loss at several lengths of the vector, so that its beginning serves alone.

sentence-transformers' MatryoshkaLoss (Kusupati et al. 2022, arXiv:2205.13147, eq. 1, all weights
1): the loss within is taken of the whole vectors and of their first numbers, at length one again,
and summed. A text is encoded once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.losses.loss import Loss, Other, Params, around, fill_other

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


class Matryoshka(Params):
    """Hyperparameters of the loss `matryoshka`."""

    model_config = ConfigDict(serialize_by_alias=True)

    within: Other = Field(
        default_factory=lambda: fill_other("info_nce"),
        alias="with",
        description="The loss that is taken at each length: a name, or a mapping of its name and "
        "its parameters.",
    )
    dimensions: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        default=(128, 64),
        min_length=1,
        description="How many of a vector's first numbers, beside all of them.",
    )

    @model_validator(mode="after")
    def _no_head(self) -> "Matryoshka":
        if self.within.get("head"):
            raise InvalidSetting(
                "conflict",
                "head: true projects whole vectors, not their first numbers: leave head out",
            )
        return self


def build(
    model: "SentenceTransformer", params: Matryoshka, slots: Mapping[str, Path]
) -> "nn.Module":
    """The loss module around the encoder. Raises ValueError where its vectors are too short."""
    from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss

    from tercet.models.losses.registry import loss_of, params_of

    width = int(model.get_embedding_dimension() or 0)
    if max(params.dimensions) >= width:
        raise ValueError(
            f"dimensions: {max(params.dimensions)} is no beginning of the encoder's {width} "
            "numbers: take fewer"
        )
    within = loss_of(params.within).build(model, params_of(params.within), slots)
    return MatryoshkaLoss(model, within, [width, *params.dimensions])


def with_params(params: Matryoshka) -> Loss:
    """The loss with the rows that the one within reads."""
    from tercet.models.losses.registry import loss_of

    return around(LOSS, loss_of(params.within))


LOSS = Loss("matryoshka", Matryoshka, build, resolve=with_params)
