"""Definitions against all entries of a dictionary (DefSent+, eqs. 3-12): its numbers.

The loss itself lies in `definition_loss.py`, which needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import Field, model_validator

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

SLOT = "entry_matrix"
KEPT = "projection"

Activation: TypeAlias = Literal["tanh", "gelu"]
# BERT's and ALBERT's.
_POOLERS = ("pooler.dense", "pooler")
# The layer between states and words in checkpoints, and what stands behind it there. RoBERTa-type
# models have no pooler that was trained, so that the masked-LM head comes first.
_LAYERS: tuple[tuple[str, Activation], ...] = (
    ("lm_head.dense", "gelu"),
    *((name, "tanh") for name in _POOLERS),
    ("cls.predictions.transform.dense", "gelu"),
    ("vocab_transform", "gelu"),
    # ModernBERT's, which may lack a bias.
    ("head.dense", "gelu"),
)


class Layer(NamedTuple):
    """A layer before the words. key: of its tensors in the file, without `.weight`."""

    name: str
    activation: Activation
    file: Path
    key: str

    @property
    def survives(self) -> bool:
        """Whether an encoder that was trained from these files still has it: heads are lost."""
        return self.name in _POOLERS


def layer_of(folder: Path) -> Layer | None:
    """The layer before the words that a model's files have; None without any."""
    from safetensors import safe_open

    # Older SentenceTransformer directories have the transformer in a folder of its own.
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("0_*/*.safetensors"))
    keys = []
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            keys += [(file, key) for key in sorted(tensors.keys())]
    for name, activation in _LAYERS:
        for file, key in keys:
            # Perhaps behind the name of the network around it.
            if f".{key}".endswith(f".{name}.weight"):
                return Layer(name, activation, file, key.removesuffix(".weight"))
    return None


def projection_file(folder: Path, part: str) -> Path | None:
    """Where the part's training has left its projection beside the encoder; None without one.

    The only part of a phase leaves it under its plain name.
    """
    files = (folder / "losses" / f"{name}.safetensors" for name in (KEPT, f"{part}.{KEPT}"))
    return next((file for file in files if file.is_file()), None)


class Definition(Params):
    """The numbers of `definition`, and how the rows of its entry matrix are made."""

    entries: Literal["mean", "cls", "words"] = Field(
        default="mean",
        description="An entry's row: mean, the mean over its definitions of the means of their "
        "states (the paper's AMP); cls, of their first states (AC); words, of the embeddings of "
        "its own word pieces (DefSent).",
    )
    ica: float | None = Field(
        default=None,
        gt=0.0,
        le=100.0,
        description="Turns the entries' space into independent components of this standard "
        "deviation (0.26 in the paper); null: left as it is.",
    )
    activation: Literal["auto", "tanh", "gelu"] = Field(
        default="auto",
        description="Of the projection: tanh behind BERT's pooler, gelu behind the dense layer of "
        "a masked-LM head; auto: that of the layer which the backbone's files have.",
    )

    start: Literal["copied", "identity"] = Field(
        default="copied",
        description="Of the projection's dense layer: copied, the backbone's own where its files "
        "have one (the paper); identity, or what turned the entries into independent components, "
        "so that entries are found before anything is learnt: "
        "the only definition of an entry then teaches next to nothing.",
    )

    @model_validator(mode="after")
    def _whole(self) -> "Definition":
        if self.ica is not None and self.entries == "words":
            raise ValueError(
                "ica is for spaces built from definitions: leave it out, or set entries to mean or "
                "cls"
            )
        return self


def build(
    model: "SentenceTransformer", params: Definition, slots: Mapping[str, Path]
) -> "nn.Module":
    """The loss module around the encoder."""
    from tercet.models.encoders.entry_space import read_space
    from tercet.models.losses.definition_loss import DefinitionLoss, projection_for

    space = read_space(slots[SLOT])
    width = int(space.matrix.shape[1])
    projection = projection_for(model, width, params.activation, params.start, space.turn)
    return DefinitionLoss(model, space.matrix, space.entry_ids, projection)


LOSS = Loss(
    name="definition",
    params=Definition,
    build=build,
    texts=("anchor",),
    optional=(),
    # Every entry that owns the definition.
    labels={"entries": pa.list_(pa.int32())},
    slots=(SLOT,),
    terms=("recall_1", "floor"),
    keeps=(KEPT,),
)
