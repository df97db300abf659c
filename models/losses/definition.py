"""Definitions against all entries of a dictionary (DefSent+, sections 3.1 and 3.2).

The entries never change, so the whole gradient goes through one vector per text. One pass over
blocks of entries gives the loss and that gradient, without keeping any block's logits.
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

KEPT = "projection"
# Logits of a batch against this many entries are held at once.
BLOCK = 16_384


class _AgainstEntries(torch.autograd.Function):  # type: ignore[misc]
    """Per text logsumexp of its products with all entries, less its mean over its own entries."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, vectors: Tensor, entries: Tensor, owners: Tensor, block: int
    ) -> tuple[Tensor, Tensor]:
        highest, nearest = vectors.new_full((2, len(vectors)), -math.inf)
        total = vectors.new_zeros(len(vectors))
        # The entries' mean, weighed by their probabilities so far.
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
        targets = _own(entries, owners, vectors, block)
        loss = highest + total.log() - (vectors * targets).sum(1)
        ctx.save_for_backward(mean / total[:, None] - targets)
        hits = (owners == first[:, None]).any(1)
        ctx.mark_non_differentiable(hits)
        return loss, hits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return gradients[0][:, None] * slope, None, None, None


def _own(entries: Tensor, owners: Tensor, like: Tensor, block: int) -> Tensor:
    """The mean of each text's own entries, (batch, width). block: how many are looked up at once.

    Only those that are there: a batch may have one text of many owners. By products, as adding
    in place (index_add_) differs from run to run on a GPU.
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
    """Mean loss of a batch, and of each text whether its best entry is one of its own.

    Cross-entropy between softmax(vectors @ entries.T) and a target that is uniform over the text's
    own entries (DefSent+, eqs. 5, 8 and 12, where each pair of an entry and a definition is a row).
    With several, the loss cannot fall below the mean of log(count): a definition does not tell its
    owners apart.

    vectors: (batch, width), the projected definitions. entries: (entries, width), frozen.
    owners: (batch, most), rows of `entries`, -1 where a text has fewer; at least one each.
    """
    loss, hits = _AgainstEntries.apply(vectors, entries, owners, block)
    return loss.mean(), hits


class Projection(nn.Module):  # type: ignore[misc]
    """From the space of sentence vectors into that of the entries: a dense layer and what follows.

    scale: what the sentence vectors are multiplied with first: an encoder that gives all of them
        length one would leave the dense layer next to nothing.
    """

    def __init__(self, dimension: int, width: int, activation: Activation, scale: float) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, width)
        # In the file, so that it can be read without the recipe.
        self.register_buffer("gelu", torch.tensor(activation == "gelu"))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, dimension) to (batch, width)."""
        dense = self.dense(vectors * self.scale)
        projected: Tensor = nn.functional.gelu(dense) if self.gelu else torch.tanh(dense)
        return projected


def projection_file(folder: Path, part: str) -> Path | None:
    """Where the part's training has left its projection beside the encoder; None without one.

    The only part of a phase leaves it under its plain name.
    """
    files = (folder / "losses" / f"{name}.safetensors" for name in (KEPT, f"{part}.{KEPT}"))
    return next((file for file in files if file.is_file()), None)


def read_projection(file: Path) -> Projection:
    """The projection that a training has left beside its encoder."""
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
    """For each text the entries with the largest products and their probabilities, falling."""
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
    """The projection from the encoder's vectors, with the backbone's own layer where it has one.

    The layer of a RoBERTa-type model is that of its masked-LM head, else it is the pooler's
    (DefSent+, section 3.2). One of another width, or none, leaves random weights. start: "identity"
    leaves the vectors as they are but for the activation, or with `turn`, which turned the entries,
    turns them the same way. donor: the model whose layer is taken instead of the backbone's.
    Raises ValueError with one sentence where it has none that fits.
    """
    dimension = int(model.get_embedding_dimension() or 0)
    normal = any(isinstance(module, Normalize) for module in model.modules())
    layer = _layer(_folder(model) if donor is None else donor)
    if donor is not None and (layer is None or layer[1].shape != (width, dimension)):
        raise ValueError(
            f"the donor at {donor} has no layer before its words that takes {dimension} numbers to "
            f"{width}: name the model that the backbone was made from, or set start: identity"
        )
    usual: Activation = "tanh" if layer is None else layer[0]
    # As long as those that were turned, or as the states behind a layer norm without weights are.
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


def _folder(model: SentenceTransformer) -> Path:
    """Where the backbone was loaded from."""
    paths = (getattr(module, "name_or_path", "") for module in model.modules())
    return Path(next((path for path in paths if path), "no folder"))


def _layer(folder: Path) -> tuple[Activation, Tensor, Tensor] | None:
    """The layer before a model's words: its activation, weight and bias."""
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
    """Definitions find their entries among all those of a dictionary.

    Args:
        model: the encoder to train.
        matrix: (entries, width), the entries' vectors; they stay as they are.
        entry_ids: (entries,), the entry of each row.
        projection: from the encoder's vectors to those of the entries; trained with it.

    Inputs: (definition) with the ids of its entries as the label, (batch, most), -1 where a
    definition has fewer. Entries without a row count as absent, and so does a definition that has
    no other.

    After each forward pass `terms` has the batch's means: `recall_1`, the share of definitions
    whose nearest entry is one of their own, and `floor`, below which the loss cannot fall.

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
        # Not persistent: neither belongs in a checkpoint. The last row stands for unknown ids.
        self.register_buffer("matrix", matrix, persistent=False)
        self.register_buffer("rows", rows, persistent=False)
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's mean loss, of one feature dictionary and the ids of the entries."""
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
    """The loss around the encoder.

    slots: `entry_matrix`, a space of that stage; `donor`, a model's directory, with start: donor.
    Raises ValueError with one sentence where the donor has no fitting layer.
    """
    space = read_space(slots[ENTRY_MATRIX])
    width = int(space.matrix.shape[1])
    projection = projection_for(
        model, width, params.activation, params.start, space.turn, slots.get(DONOR)
    )
    return DefinitionLoss(model, space.matrix, space.entry_ids, projection)
