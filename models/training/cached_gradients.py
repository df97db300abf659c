"""Cached gradients: batches of any size in the memory of a few texts (Gao et al. 2021, GradCache).

A contrastive loss needs all vectors of a batch, but none of the states behind them: those are made
again, a few texts at a time, once the loss's gradient at the vectors is known. The batch's
gradient stays what it is; a step takes one more forward pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tercet.models.training.pieces import EncoderInPieces


class CachedEncoder(EncoderInPieces):
    """An encoder whose vectors are stored, and remember no states.

    mini_batch: how many texts are encoded at once, >= 1, forwards and backwards. Texts of similar
        length are encoded together, and share their draws of dropout, the same in both passes.
    """

    def __init__(self, model: SentenceTransformer, mini_batch: int) -> None:
        super().__init__(model)
        self.mini_batch = mini_batch

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """As many as `mini_batch`, and the rest."""
        whole, rest = divmod(len(widths), self.mini_batch)
        return [self.mini_batch] * whole + ([rest] if rest else [])

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts, without the states behind them."""
        # The library's checkpoint wants an input with a gradient.
        switch = torch.zeros((), device=features["attention_mask"].device, requires_grad=True)
        found: Tensor = checkpoint(self._encoded, switch, features, use_reentrant=True)
        return found

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension).

        Raises: ValueError where the features do not have one row for each text.
        """
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2:
            raise ValueError(
                "mini_batch divides inputs that have one row for each text, and this encoder's do "
                "not: leave mini_batch out"
            )
        return super().forward(features)

    def _encoded(self, switch: Tensor, features: dict[str, Any]) -> Tensor:
        return super().vectors(features)
