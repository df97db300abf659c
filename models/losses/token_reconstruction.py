"""SARCSE's reconstruction of a text's tokens from its vector, beside another loss.

Liu et al. 2023, sections 2.2 to 2.4, eqs. 5-12. The decoder belongs to the loss and is trained with
it; the encoder is one of `pooling: token_cnn`. The modules lie in `token_reconstruction_loss.py`,
which needs torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.losses.loss import Loss, Other, Params, around, fill_other

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

NAME, SLOT = "token_reconstruction", "frequencies"


class TokenReconstruction(Params):
    """Hyperparameters of the loss `token_reconstruction`."""

    model_config = ConfigDict(serialize_by_alias=True)

    around: Other = Field(
        default_factory=lambda: fill_other("info_nce"),
        alias="with",
        description="The contrastive loss that it is added to: a name, or a mapping of its name "
        "and its parameters.",
    )
    weight: float = Field(
        default=2.5e-4,
        gt=0.0,
        le=1000.0,
        description="Of each text's reconstruction, whose squared errors are summed over the "
        "width of a token's state (β and γ of the paper, which speaks of a mean).",
    )
    adaptive: bool = Field(
        default=True, description="Frequent tokens count less; false: all tokens alike."
    )
    floor: float = Field(
        default=0.1, ge=0.0, le=1.0, description="θ: the least that a token counts."
    )
    slope: float = Field(
        default=50.0, ge=0.0, le=1e6, description="λ: how fast a token counts less by frequency."
    )
    decoder: bool = Field(
        default=True, description="false: the contrastive loss alone, on the same encoder."
    )
    unpooling: Literal["places", "broadcast"] = Field(
        default="places",
        description="Where a channel's number stands before the transposed TextCNN: where its "
        "maximum was, or everywhere.",
    )
    detach: bool = Field(
        default=False,
        description="true, unlike in the paper: no gradient through the states that are to be "
        "reconstructed, so that the encoder learns from them through its vectors alone.",
    )

    @model_validator(mode="after")
    def _something_to_weigh(self) -> "TokenReconstruction":
        if self.adaptive and self.slope == 0:
            raise InvalidSetting(
                "bad_value", "slope: 0 weighs all tokens alike: set adaptive: false instead"
            )
        return self


def build(
    model: "SentenceTransformer", params: TokenReconstruction, slots: Mapping[str, Path]
) -> "nn.Module":
    """The loss module around the encoder. Raises ValueError with one sentence where it cannot be.

    slots: `frequencies`, a directory of `count_tokens`, unless all tokens count alike.
    """
    from tercet.models.losses import token_reconstruction_loss as modules
    from tercet.models.losses.registry import loss_of, params_of
    from tercet.models.losses.token_frequencies import read_frequencies

    head = modules.token_cnn_of(model)
    other, numbers = loss_of(params.around), params_of(params.around)
    if not params.decoder:
        return other.build(model, numbers, {})
    frequencies = read_frequencies(slots[SLOT], model.tokenizer) if params.adaptive else None
    weights = modules.token_weights(frequencies, params.floor, params.slope)
    encoder = modules.RecordedEncoder(model)
    return modules.TokenReconstructionLoss(
        encoder,
        other.build(encoder, numbers, {}),  # type: ignore[arg-type]
        modules.TokenDecoder(head.width, head.channels, head.filters, params.unpooling),
        params.weight,
        weights,
        params.detach,
    )


def with_params(params: TokenReconstruction) -> Loss:
    """The loss with what the other one reads and reports."""
    from tercet.models.losses.registry import loss_of

    other = loss_of(params.around)
    terms = (*LOSS.terms, *other.terms) if params.decoder else other.terms
    slots = LOSS.slots if params.decoder and params.adaptive else ()
    states = params.decoder
    return replace(around(LOSS, other), terms=terms, slots=slots, states=states)


LOSS = Loss(
    name=NAME,
    params=TokenReconstruction,
    build=build,
    slots=(SLOT,),
    terms=("contrastive", "reconstruction", "reconstruction_positive"),
    states=True,
    resolve=with_params,
)
