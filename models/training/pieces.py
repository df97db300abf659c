"""An encoder that takes a batch's texts a few at a time, those of like length together.

Padding costs as much as text. Batches hold rows of like length, but a row's texts differ: where
one is a question and one its answer, over a third of all tokens can be padding.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

# Widths are multiples of this: bf16 on a CPU compiles for each new shape.
STEP = 8
# What one more forward pass costs, in tokens (MiniLM on a CPU, both ways).
_PASS = 64


class EncoderInPieces(nn.Module, ABC):  # type: ignore[misc]
    """Stands for an encoder in any loss that reads the `sentence_embedding` alone.

    Each subclass says where texts in order of their lengths are cut, and how a piece is encoded.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

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

    @abstractmethod
    def sizes(self, widths: Sequence[int]) -> list[int]:
        """How many texts each piece has, of texts with these rising widths in tokens."""

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts."""
        # A copy: modules add their states to what they are given.
        found: Tensor = self.model(dict(features))["sentence_embedding"]
        return found

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension).

        features: with an `attention_mask` (texts, tokens).
        """
        mask = features["attention_mask"]
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        ends = (mask * places).amax(1).long()  # (texts,): where each text's padding begins
        order = ends.argsort(stable=True)
        # A text without a token keeps a column.
        steps = -(-ends[order].clamp(min=1) // STEP)
        widths = (steps * STEP).clamp(max=mask.shape[1]).tolist()
        sizes = self.sizes(widths)
        if len(sizes) == 1:
            return {"sentence_embedding": self.vectors(features)}
        vectors, start = [], 0
        for size in sizes:
            rows = order[start : start + size]
            start += size
            vectors.append(self.vectors(_piece(features, rows, widths[start - 1])))
        return {"sentence_embedding": torch.cat(vectors)[order.argsort()]}


class LengthGroups(EncoderInPieces):
    """Encodes texts in as many pieces as save more padding than a further pass costs.

    The vectors are those of the whole batch, but for what dropout draws. A batch stays whole on a
    GPU, where many small passes are slower than a padded one, and where its inputs do not have a
    row for each text.
    """

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """The cheapest cut."""
        return cheapest(widths)

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension)."""
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.device.type != "cpu":
            return {"sentence_embedding": self.vectors(features)}
        return super().forward(features)


def cheapest(widths: Sequence[int]) -> list[int]:
    """Sizes of the pieces that cost least: each its texts times its last width, and a pass.

    widths: rising. The sizes are in their order and sum to their number.
    """
    count = len(widths)
    # A cut between texts of one width saves nothing.
    ends = [n for n in range(1, count + 1) if n == count or widths[n] != widths[n - 1]]
    # Least cost up to each end, and where its last piece begins.
    costs: dict[int, tuple[int, int]] = {0: (0, 0)}
    for end in ends:
        costs[end] = min(
            (cost + (end - begin) * widths[end - 1] + _PASS, begin)
            for begin, (cost, _) in costs.items()
        )
    sizes: list[int] = []
    end = len(widths)
    while end:
        begin = costs[end][1]
        sizes.insert(0, end - begin)
        end = begin
    return sizes


def _piece(features: dict[str, Any], rows: Tensor, width: int) -> dict[str, Any]:
    """The features of these rows, without the columns in which all of them are padding."""
    texts, columns = features["attention_mask"].shape
    piece = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == (texts,):
            value = value[rows]
            value = value[:, :width] if value.shape[1:2] == (columns,) else value
        piece[name] = value
    return piece
