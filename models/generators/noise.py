"""Noise inside a generator, drawn by row: the one thing that decoding knows of VAEGPT."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def row_noise(model: "PreTrainedModel", seeds: "Tensor", positions: "Tensor") -> "Tensor | None":
    """What the model's forward takes as `noise` for these tokens; None for a model without noise.

    seeds: (rows,), int64. positions: (rows, tokens), int64, from 0 in each row, padding not
    counted. A model with noise has a method `row_noise(seeds, positions)`, which draws with
    `draws.normals` and returns a tensor whose first two dimensions are rows and tokens.
    """
    own = getattr(model, "row_noise", None)
    return None if own is None else own(seeds, positions)
