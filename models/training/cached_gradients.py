"""Cached gradients: batches of any size in the memory of a few texts (Gao et al. 2021, GradCache).

A contrastive loss needs all vectors of a batch, but none of the states behind them: those are made
again, a few texts at a time, once the loss's gradient at the vectors is known. The batch's
gradient stays what it is; a step takes one more forward pass.
"""

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Widths are multiples of this: bf16 on a CPU compiles for each new shape.
_STEP = 8


class CachedEncoder(nn.Module):  # type: ignore[misc]
    """Stands for an encoder in any loss; its vectors are stored, and remember no states.

    mini_batch: how many texts are encoded at once, >= 1, forwards and backwards. Texts of similar
        length are encoded together, and share their draws of dropout, the same in both passes.

    A loss sees the encoder's `sentence_embedding` alone.
    """

    def __init__(self, model: SentenceTransformer, mini_batch: int) -> None:
        super().__init__()
        self.model = model
        self.mini_batch = mini_batch

    def __getattr__(self, name: str) -> Any:
        """What else a loss asks of the encoder is the encoder's own."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def __getitem__(self, place: int) -> nn.Module:
        """The encoder's module at this place."""
        module: nn.Module = self.model[place]
        return module

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
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        ends = (mask * places).amax(1)  # (texts,): where each text's padding begins
        order = ends.argsort(stable=True)
        lengths = ends[order].tolist()
        # The library's checkpoint wants an input with a gradient.
        switch = torch.zeros((), device=mask.device, requires_grad=True)
        vectors = []
        for start in range(0, len(order), self.mini_batch):
            rows = order[start : start + self.mini_batch]
            piece = _piece(features, rows, lengths[start + len(rows) - 1])
            vectors.append(checkpoint(self._encoded, switch, piece, use_reentrant=True))
        return {"sentence_embedding": torch.cat(vectors)[order.argsort()]}

    def _encoded(self, switch: Tensor, features: dict[str, Any]) -> Tensor:
        # A copy: modules add their states to what they are given.
        vectors: Tensor = self.model(dict(features))["sentence_embedding"]
        return vectors


def _piece(features: dict[str, Any], rows: Tensor, length: int) -> dict[str, Any]:
    """The features of these rows, without the columns in which all of them are padding."""
    texts, columns = features["attention_mask"].shape
    width = min(-(-length // _STEP) * _STEP, columns)
    piece = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == (texts,):
            value = value[rows]
            value = value[:, :width] if value.shape[1:2] == (columns,) else value
        piece[name] = value
    return piece
