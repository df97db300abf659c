"""The module of the loss `nt_xent`."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def nt_xent(first: Tensor, second: Tensor, tau: float) -> Tensor:
    """Mean of −log softmax over the 2N vectors, each against all but itself.

    first, second: (N, d), partners by row, of any length. Returns a scalar.
    """
    vectors = functional.normalize(torch.cat([first, second]), dim=-1)
    logits = vectors @ vectors.T / tau
    logits.fill_diagonal_(-torch.inf)
    rows = torch.arange(len(vectors), device=vectors.device)
    return functional.cross_entropy(logits, rows.roll(len(first)))


class NtXentLoss(nn.Module):  # type: ignore[misc]
    """`nt_xent` of what a model makes of anchors and positives."""

    def __init__(self, model: nn.Module, tau: float) -> None:
        super().__init__()
        self.model = model
        self.tau = tau

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's loss, a scalar."""
        anchors, positives = (
            self.model(features)["sentence_embedding"] for features in sentence_features
        )
        return nt_xent(anchors, positives, self.tau)

    def get_config_dict(self) -> dict[str, Any]:
        """The loss's hyperparameters, as the library's losses report theirs."""
        return {"tau": self.tau}

    @property
    def citation(self) -> str:
        """The paper, for the library's model cards."""
        return """
@inproceedings{chen2020simple,
    title = "A Simple Framework for Contrastive Learning of Visual Representations",
    author = "Chen, Ting and Kornblith, Simon and Norouzi, Mohammad and Hinton, Geoffrey",
    booktitle = "International Conference on Machine Learning",
    year = "2020",
    url = "https://arxiv.org/abs/2002.05709"
}
"""
