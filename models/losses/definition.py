"""Cross-entropy of definitions over all entries of a dictionary (DefSent+, sections 3.1, 3.2).

The entries are frozen, so the whole gradient goes through one vector per text. One pass over
blocks of entries computes the loss and that gradient, without keeping the logits of any block.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from torch import Tensor, nn

from tercet.models.encoders.encoder import encode
from tercet.models.encoders.entry_space import Space, Turn, read_space
from tercet.models.losses.registry import DONOR, ENTRY_MATRIX, Definition
from tercet.models.losses.word_layer import Activation, layer_of

# Number of entries whose logits are in memory at once.
BLOCK = 16_384


class _AgainstEntries(torch.autograd.Function):  # type: ignore[misc]
    """Per text: logsumexp of its products with all entries, minus the mean over its own entries."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, vectors: Tensor, entries: Tensor, owners: Tensor, block: int
    ) -> tuple[Tensor, Tensor]:
        highest, nearest = vectors.new_full((2, len(vectors)), -math.inf)
        total = vectors.new_zeros(len(vectors))
        # Running mean of the entries, weighted by their probabilities.
        mean = torch.zeros_like(vectors)
        first = torch.zeros(len(vectors), dtype=torch.long, device=vectors.device)
        for start in range(0, len(entries), block):
            rows = entries[start : start + block].to(vectors)
            logits = vectors @ rows.T  # (batch, block)
            best, place = logits.max(1)
            first = torch.where(best > nearest, place + start, first)
            nearest = torch.maximum(nearest, best)
            new = torch.maximum(highest, logits.max(1).values)
            shrink = torch.exp(highest - new)
            weights = torch.exp(logits - new[:, None])
            total = total * shrink + weights.sum(1)
            mean = mean * shrink[:, None] + weights @ rows
            highest = new
        targets = _own_mean(entries, owners, vectors, block)
        loss = highest + total.log() - (vectors * targets).sum(1)
        ctx.save_for_backward(mean / total[:, None] - targets)
        hits = (owners == first[:, None]).any(1)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return gradients[0][:, None] * slope, None, None, None


def _own_mean(entries: Tensor, owners: Tensor, like: Tensor, block: int) -> Tensor:
    """The mean of each text's own entries, (batch, width). block: entries looked up at once.

    Padding is skipped first, since one text may have many more owners than the rest of the batch.
    Matrix products add the entries, since index_add_ is not deterministic on a GPU.
    """
    texts, places = (owners >= 0).nonzero(as_tuple=True)
    rows, batch = owners[texts, places], torch.arange(len(owners), device=owners.device)
    total = torch.zeros_like(like)
    for start in range(0, len(rows), block):
        belongs = texts[start : start + block] == batch[:, None]  # (batch, block)
        total += belongs.to(like) @ entries[rows[start : start + block]].to(like)
    return total / (owners >= 0).sum(1, keepdim=True)


def definition_loss(
    vectors: Tensor,
    entries: Tensor,
    owners: Tensor,
    block: int = BLOCK,
) -> tuple[Tensor, Tensor]:
    """Mean loss of a batch, and whether each text's best entry is among its own, (batch,).

    Cross-entropy between softmax(vectors @ entries.T) and a target that is uniform over the text's
    own entries (DefSent+, eqs. 5, 8 and 12, where each pair of an entry and a definition is a row).
    A definition cannot tell its own entries apart, so with several of them the loss cannot fall
    below the mean of log(count).

    vectors: (batch, width), the projected definitions. entries: (entries, width), frozen.
    owners: (batch, most), rows of `entries`, -1 where a text has fewer; at least one each.
    """
    loss, hits = _AgainstEntries.apply(vectors, entries, owners, block)
    return loss.mean(), hits


class Projection(nn.Module):  # type: ignore[misc]
    """Projects sentence vectors into the space of the entries: a dense layer and an activation.

    scale: factor on the sentence vectors. Unit vectors would be too small for the dense layer.
    """

    def __init__(self, dimension: int, width: int, activation: Activation, scale: float) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, width)
        # Buffers are saved with the weights, so that the file can be read without the recipe.
        self.register_buffer("gelu", torch.tensor(activation == "gelu"))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, dimension) to (batch, width)."""
        dense = self.dense(vectors * self.scale)
        projected: Tensor = nn.functional.gelu(dense) if self.gelu else torch.tanh(dense)
        return projected


def projection_file(folder: Path, part: str) -> Path | None:
    """The file of a part's projection beside the trained encoder; None if there is none.

    If a phase has one part only, the file name has no prefix.
    """
    names = ("projection.safetensors", f"{part}.projection.safetensors")
    files = (folder / "losses" / name for name in names)
    return next((file for file in files if file.is_file()), None)


def read_projection(file: Path) -> Projection:
    """Reads the projection that training saved beside the encoder."""
    tensors = load_file(file)
    width, dimension = tensors["dense.weight"].shape
    projection = Projection(dimension, width, "tanh", 1.0)
    projection.load_state_dict(tensors)
    projection.eval()
    return projection


@torch.no_grad()  # type: ignore[untyped-decorator]
def nearest_entries(
    model: SentenceTransformer,
    projection: Projection,
    space: Space,
    texts: Sequence[str],
    count: int,
) -> list[list[tuple[str, float]]]:
    """For each text, the `count` most probable entries with their probabilities, descending."""
    vectors = encode(model, texts, normalise=False)
    logits = projection(torch.from_numpy(vectors)) @ space.matrix.T  # (texts, entries)
    nearest = torch.softmax(logits, 1).topk(min(count, len(space.texts)))
    return [
        [(space.texts[place], share) for place, share in zip(places, shares, strict=True)]
        for places, shares in zip(nearest.indices.tolist(), nearest.values.tolist(), strict=True)
    ]


def projection_for(
    model: SentenceTransformer,
    width: int,
    activation: Literal["auto", "tanh", "gelu"],
    start: Literal["copied", "donor", "identity"] = "copied",
    turn: Turn | None = None,
    donor: Path | None = None,
) -> Projection:
    """The projection of the encoder's vectors, initialised from the backbone's layer if it has one.

    The layer is the dense layer of the masked-LM head for a RoBERTa-type model, else the pooler's
    (DefSent+, section 3.2). A missing layer, or one of another width, leaves random weights.

    start: "identity" changes the vectors by the activation only, or also by `turn`, the rotation of
        the entries. donor: a model whose layer is copied instead of the backbone's.
    Raises: ValueError with one sentence if the donor has no layer that fits.
    """
    dimension = int(model.get_embedding_dimension() or 0)
    normal = any(isinstance(module, Normalize) for module in model.modules())
    names = (getattr(module, "name_or_path", "") for module in model.modules())
    backbone = Path(next(filter(None, names), "no folder"))
    layer = _layer(backbone if donor is None else donor)
    if donor is not None and (layer is None or layer[1].shape != (width, dimension)):
        raise ValueError(
            f"the donor at {donor} has no layer before its words that takes {dimension} numbers to "
            f"{width}: name the model that the backbone was made from, or set start: identity"
        )
    usual: Activation = "tanh" if layer is None else layer[0]
    # The norm of the vectors before the turn, or of states after a layer norm without weights.
    length = math.sqrt(dimension) if start != "identity" or turn is None else turn.length
    projection = Projection(
        dimension,
        width,
        usual if activation == "auto" else activation,
        length if normal else 1.0,
    )
    if start == "identity":
        nn.init.eye_(projection.dense.weight)
        nn.init.zeros_(projection.dense.bias)
        if turn is not None:
            with torch.no_grad():
                projection.dense.weight.copy_(turn.weight @ projection.dense.weight)
                projection.dense.bias.copy_(turn.bias)
    elif layer is not None and layer[1].shape == projection.dense.weight.shape:
        with torch.no_grad():
            projection.dense.weight.copy_(layer[1])
            projection.dense.bias.copy_(layer[2])
    return projection


def _layer(folder: Path) -> tuple[Activation, Tensor, Tensor] | None:
    """The layer before the word embeddings: its activation, weight and bias."""
    layer = layer_of(folder)
    if layer is None:
        return None
    with safe_open(layer.file, framework="pt") as tensors:
        weight = tensors.get_tensor(f"{layer.key}.weight").float()
        bias = torch.zeros(len(weight))
        if f"{layer.key}.bias" in set(tensors.keys()):
            bias = tensors.get_tensor(f"{layer.key}.bias").float()
    return layer.activation, weight, bias


class DefinitionLoss(nn.Module):  # type: ignore[misc]
    """Classifies each definition among all entries of a dictionary.

    Args:
        model: the encoder to train.
        matrix: (entries, width), the entries' vectors, frozen.
        entry_ids: (entries,), the entry id of each row.
        projection: from the encoder's vectors to the entries' space; trained with the encoder.

    Inputs: (definition), with the ids of its entries as the label, (batch, most), padded with -1.
    Entries without a row are ignored, and so are definitions without any other entry.

    After each forward pass `terms` has the batch's means: `recall_1`, the share of definitions
    whose nearest entry is among their own, and `floor`, the smallest possible loss.

    Reference: DefSent+, section 3.2.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        matrix: Tensor,
        entry_ids: Tensor,
        projection: Projection,
    ) -> None:
        super().__init__()
        self.model, self.projection = model, projection
        rows = torch.full((int(entry_ids.max()) + 2,), -1)
        rows[entry_ids.long()] = torch.arange(len(entry_ids))
        # Not persistent: neither belongs in a checkpoint. The last row is -1, for unknown ids.
        self.register_buffer("matrix", matrix, persistent=False)
        self.register_buffer("rows", rows, persistent=False)
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's mean loss. labels: (batch, most), ids of the entries."""
        (features,) = sentence_features
        self.terms = {}
        if labels is None:
            raise ValueError("The loss definition needs each definition's entries as labels.")
        vectors = self.model(features)["sentence_embedding"]
        valid = (labels >= 0) & (labels < len(self.rows) - 1)
        owners = self.rows[torch.where(valid, labels.long(), -1)]
        owned = (owners >= 0).any(1)
        projected = self.projection(vectors)[owned]
        if not len(projected):
            return vectors.sum() * 0.0
        loss, hits = definition_loss(projected, self.matrix, owners[owned])
        count = (owners[owned] >= 0).sum(1)
        self.terms = {"recall_1": hits.float().mean(), "floor": count.float().log().mean()}
        return loss


def definition(
    model: SentenceTransformer, params: Definition, slots: Mapping[str, Path]
) -> DefinitionLoss:
    """Builds the loss around the encoder.

    slots: `entry_matrix`, the directory of an entry space; `donor`, a model's directory, only with
    start: donor. Raises ValueError with one sentence if the donor has no layer that fits.
    """
    space = read_space(slots[ENTRY_MATRIX])
    width = int(space.matrix.shape[1])
    projection = projection_for(
        model, width, params.activation, params.start, space.turn, slots.get(DONOR)
    )
    return DefinitionLoss(model, space.matrix, space.entry_ids, projection)
