"""NT-Xent: each of the 2N texts of a batch is contrasted with the remaining 2N − 1.

Chen et al. 2020, arXiv:2002.05709, eq. 1, as in Generate-CSE. Unlike `info_nce`, it also contrasts
anchors with anchors, and both texts of a pair are queries.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from tercet.models.losses.heads import headed
from tercet.models.losses.registry import InBatch


def nt_xent(first: Tensor, second: Tensor, tau: float) -> Tensor:
    """Mean of −log softmax over the 2N vectors, each against the remaining 2N − 1.

    first, second: (N, d), partners by row, of any norm. Returns a scalar.
    """
    vectors = nn.functional.normalize(torch.cat([first, second]), dim=-1)
    logits = vectors @ vectors.T / tau
    logits.fill_diagonal_(-torch.inf)
    rows = torch.arange(len(vectors), device=vectors.device)
    return nn.functional.cross_entropy(logits, rows.roll(len(first)))


class NtXentLoss(nn.Module):  # type: ignore[misc]
    """`nt_xent` on the vectors of anchors and positives.

    Inputs: (anchor, positive); labels are ignored.
    """

    def __init__(
        self, model: SentenceTransformer, params: InBatch, slots: Mapping[str, Path]
    ) -> None:
        super().__init__()
        self.model, self.tau = headed(model, params.head), params.tau

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's loss, a scalar."""
        anchors, positives = (
            self.model(features)["sentence_embedding"] for features in sentence_features
        )
        return nt_xent(anchors, positives, self.tau)
