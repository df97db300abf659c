"""Definitions against all entries of a dictionary (DefSent+, sections 3.1 and 3.2).

The loss itself lies in `definition_loss.py`, which needs torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

SLOT, DONOR = "entry_matrix", "donor"
KEPT = "projection"


def projection_file(folder: Path, part: str) -> Path | None:
    """Where the part's training has left its projection beside the encoder; None without one.

    The only part of a phase leaves it under its plain name.
    """
    files = (folder / "losses" / f"{name}.safetensors" for name in (KEPT, f"{part}.{KEPT}"))
    return next((file for file in files if file.is_file()), None)


class Definition(Params):
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
        description="Entries that the components are found on, at most, drawn; null: all, as in "
        "the paper, which takes memory for several float64 copies.",
    )
    activation: Literal["auto", "tanh", "gelu"] = Field(
        default="auto",
        description="Of the projection: tanh behind BERT's pooler, gelu behind the dense layer of "
        "a masked-LM head; auto: that of the layer which the backbone's files have.",
    )

    start: Literal["copied", "donor", "identity"] = Field(
        default="copied",
        description="Of the projection's dense layer: copied, the backbone's own where its files "
        "have one (the paper); donor, that of the model which the slot donor names (the authors' "
        "code for every RoBERTa: roberta-base); identity, or what turned the entries into "
        "independent components, so that entries are found before anything is learnt: "
        "the only definition of an entry then teaches next to nothing.",
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


def build(
    model: "SentenceTransformer", params: Definition, slots: Mapping[str, Path]
) -> "nn.Module":
    """The loss module around the encoder.

    slots: `entry_matrix`, a space of that stage; `donor`, a model's directory, with start: donor.
    Raises ValueError with one sentence where the donor has no fitting layer.
    """
    from tercet.models.encoders.entry_space import read_space
    from tercet.models.losses.definition_loss import DefinitionLoss, projection_for

    space = read_space(slots[SLOT])
    width = int(space.matrix.shape[1])
    projection = projection_for(
        model, width, params.activation, params.start, space.turn, slots.get(DONOR)
    )
    return DefinitionLoss(model, space.matrix, space.entry_ids, projection)


def with_params(params: Definition) -> Loss:
    """The loss with the models that it reads."""
    return LOSS if params.start == "donor" else replace(LOSS, slots=(SLOT,))


LOSS = Loss(
    name="definition",
    params=Definition,
    build=build,
    texts=("anchor",),
    optional=(),
    # Every entry that owns the definition.
    labels={"entries": pa.list_(pa.int32())},
    slots=(SLOT, DONOR),
    terms=("recall_1", "floor"),
    keeps=(KEPT,),
    resolve=with_params,
)
