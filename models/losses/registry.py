"""The losses by name, with their hyperparameters, inputs and import paths.

This module must not import torch, so that recipes are checked without it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from tercet.errors import InvalidSetting
from tercet.models.config import Config
from tercet.models.errors import suggest
from tercet.models.losses.loss import Loss
from tercet.models.plugins import with_installed

UNVERSIONED = True

# Names of the model inputs of losses.
DONOR, ENTRY_MATRIX, FREQUENCIES, TEACHER = "donor", "entry_matrix", "frequencies", "teacher"


def fill_other(content: Any) -> dict[str, Any]:
    """Name and all parameters of an inner loss.

    Raises: ValueError with one sentence for a loss that is unknown or cannot be an inner loss.
    """
    other = fill_loss(content)
    loss = loss_of(other)
    if loss.around or loss.slots or loss.keeps or loss.texts[:2] != ("anchor", "positive"):
        raise ValueError(
            f"another loss cannot stand around the loss {loss.name}: take one that contrasts "
            "anchors and positives, such as info_nce"
        )
    return other


_WRITTEN = {
    "anyOf": [
        {"type": "string"},
        {"properties": {"name": {"type": "string"}}, "required": ["name"], "type": "object"},
    ]
}
Other: TypeAlias = Annotated[dict[str, Any], BeforeValidator(fill_other), WithJsonSchema(_WRITTEN)]


class InBatch(Config):
    """Hyperparameters of `info_nce` and `nt_xent`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )


class GaussianDecay(Config):
    """Hyperparameters of the loss `gaussian_decay`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    sigma_cosine: float = Field(
        default=0.2,
        ge=0.0,
        le=2.0,
        description="Half-width sigma of the Gaussian, in cosine: 0.01 in the paper, 0.0085 in its "
        "code. At 0.2, chosen on dev with negatives by rules, a row's own negative gets next to no "
        "gradient; 0 means no decay.",
    )
    gate: Literal["symmetric", "one_sided"] = Field(
        default="symmetric",
        description="symmetric (the paper), or one_sided (its code): decay only where the "
        "student's cosine is at most the teacher's.",
    )
    detach: Literal["opening", "term", "none"] = Field(
        default="opening",
        description="The part that is constant in the gradient: opening, the gate's; term, the "
        "whole reduction of the logit (the paper's code); none, nothing (its equation).",
    )
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )

    @model_validator(mode="after")
    def _same_space(self) -> "GaussianDecay":
        if self.head and self.sigma_cosine > 0:
            raise InvalidSetting(
                "conflict",
                "head: true with the Gaussian decay would compare the student's cosine after the "
                "head with the teacher's, which has none: leave out head, or set sigma_cosine: 0",
            )
        return self


class Definition(Config):
    """Hyperparameters of the loss `definition`, and how the rows of its entry matrix are made."""

    entries: Literal["mean", "cls", "words"] = Field(
        default="mean",
        description="An entry's row: mean, the mean over its definitions of the means of their "
        "states (the paper's AMP); cls, of their first states (AC); words, of the embeddings of "
        "its own word pieces, as in DefSent, which sets the masked-LM head, frozen, before them.",
    )
    ica: float | None = Field(
        default=None,
        gt=0.0,
        le=100.0,
        description="Turns the entries' space into independent components of this standard "
        "deviation; null: left as it is. The paper multiplies what scikit-learn gives by 100: 0.26 "
        "where components had the deviation 1/√n, over its 150,518 entries; 100 in the authors' "
        "code, which asks for unit variance.",
    )
    ica_rows: int | None = Field(
        default=20_000,
        ge=2,
        description="At most this many drawn entries to estimate the components from; null: all, "
        "as in the paper, which takes memory for several float64 copies.",
    )
    activation: Literal["auto", "tanh", "gelu"] = Field(
        default="auto",
        description="Activation of the projection: tanh after BERT's pooler, gelu after the dense "
        "layer of a masked-LM head; auto: that of the layer in the backbone's files.",
    )
    start: Literal["copied", "donor", "identity"] = Field(
        default="copied",
        description="Initial dense layer of the projection: copied, the backbone's own if its "
        "files have one (the paper); donor, that of the model in the slot donor (the authors' code "
        "for every RoBERTa: roberta-base); identity, or the rotation of the entries into "
        "independent components, so that entries are found before training: the only definition "
        "of an entry then teaches almost nothing.",
    )

    @model_validator(mode="after")
    def _whole(self) -> "Definition":
        if self.ica is not None and self.entries == "words":
            raise InvalidSetting(
                "no_effect",
                "ica is for spaces built from definitions: leave it out, or set entries to mean or "
                "cls",
            )
        return self


class TokenReconstruction(Config):
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
        description="Weight of each text's reconstruction, whose squared errors are summed over "
        "the width of a token's state (β and γ of the paper, which speaks of a mean).",
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
        description="Where a channel's value is put before the transposed TextCNN: places, where "
        "its maximum was; broadcast, everywhere.",
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


class Matryoshka(Config):
    """Hyperparameters of the loss `matryoshka`."""

    model_config = ConfigDict(serialize_by_alias=True)

    within: Other = Field(
        default_factory=lambda: fill_other("info_nce"),
        alias="with",
        description="The loss at each length: a name, or a mapping of its name and its parameters.",
    )
    dimensions: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        default=(128, 64),
        min_length=1,
        description="Numbers of leading dimensions, in addition to the whole vector.",
    )

    @model_validator(mode="after")
    def _no_head(self) -> "Matryoshka":
        if self.within.get("head"):
            raise InvalidSetting(
                "conflict",
                "head: true projects whole vectors, not their first numbers: leave head out",
            )
        return self


def _reconstructed(loss: Loss, params: TokenReconstruction) -> Loss:
    other = loss_of(params.around)
    return replace(
        _around(loss, other),
        terms=(*loss.terms, *other.terms) if params.decoder else other.terms,
        slots=loss.slots if params.decoder and params.adaptive else (),
        states=params.decoder,
    )


def _around(loss: Loss, other: Loss) -> Loss:
    """The loss with the columns of its inner loss."""
    return replace(
        loss,
        texts=other.texts,
        optional=other.optional,
        labels=other.labels,
        may_read=other.may_read,
        around=(other.name, *other.around),
    )


_HERE = "tercet.models.losses"
LOSSES: Mapping[str, Loss] = with_installed(
    "tercet.losses",
    (
        Loss(
            "definition",
            Definition,
            f"{_HERE}.definition:definition",
            texts=("anchor",),
            optional=(),
            # The ids of all entries that have the definition.
            labels={"entries": pa.list_(pa.int32())},
            slots=(ENTRY_MATRIX, DONOR),
            terms=("recall_1", "floor"),
            keeps=("projection",),
            resolve=lambda loss, params: (
                loss if params.start == "donor" else replace(loss, slots=(ENTRY_MATRIX,))
            ),
        ),
        Loss(
            "gaussian_decay",
            GaussianDecay,
            f"{_HERE}.gaussian_decay:GaussianDecayLoss",
            texts=("anchor", "positive", "negative"),
            optional=(),
            # The teacher's cosine of the negative, in [-1, 1]; without it there is no decay.
            labels={"label": pa.float32()},
            # With a teacher, training computes the label from the texts of each batch.
            may_read=(TEACHER,),
            terms=("gate_opening", "gradient_share", "student_negative", "teacher_negative"),
            resolve=lambda loss, params: (
                loss if params.sigma_cosine > 0 else replace(loss, may_read=())
            ),
        ),
        Loss("guided", Config, f"{_HERE}.guided:GuidedLoss", slots=("guide",)),
        Loss("info_nce", InBatch, f"{_HERE}.info_nce:info_nce"),
        Loss(
            "matryoshka",
            Matryoshka,
            f"{_HERE}.matryoshka:matryoshka",
            resolve=lambda loss, params: _around(loss, loss_of(params.within)),
        ),
        Loss("nt_xent", InBatch, f"{_HERE}.nt_xent:NtXentLoss", optional=()),
        Loss(
            "pairwise_logistic",
            Config,
            f"{_HERE}.pairwise_logistic:PairwiseLogisticLoss",
            texts=("anchor", "positive", "negative"),
            optional=(),
            terms=("in_order", "positive", "negative"),
        ),
        Loss(
            "token_reconstruction",
            TokenReconstruction,
            f"{_HERE}.token_reconstruction:token_reconstruction",
            slots=(FREQUENCIES,),
            terms=("contrastive", "reconstruction", "reconstruction_positive"),
            states=True,
            resolve=_reconstructed,
        ),
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
    """Name and all parameters of a loss, from its name or a mapping of name and parameters.

    default: name if the mapping has none. Raises ValueError with one sentence.
    """
    if isinstance(content, str):
        content = {"name": content}
    if not isinstance(content, dict):
        raise ValueError("name a loss, or give a mapping of its name and its parameters")
    name = content.get("name", default)
    if name is None:
        raise ValueError(f"name the loss: one of {', '.join(LOSSES)}")
    return {"name": name, **params_of({**content, "name": name}).model_dump(mode="json")}


def params_of(content: Mapping[str, Any]) -> Config:
    """The parameters in a mapping of a loss's name and parameters."""
    values = {key: value for key, value in content.items() if key != "name"}
    return loss_named(content["name"]).params.model_validate(values)


def loss_of(content: Mapping[str, Any]) -> Loss:
    """The loss in a mapping of its name and parameters, resolved for these parameters."""
    return loss_named(content["name"]).with_params(params_of(content))
