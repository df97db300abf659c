"""NT-Xent: each of a batch's 2N texts finds its partner among all the others.

Chen et al. 2020, arXiv:2002.05709, eq. 1, as Generate-CSE uses it: unlike `info_nce`, it also
contrasts anchors with anchors, and both texts of a pair serve as the query.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn


class NtXent(Params):
    """Hyperparameters of the loss `nt_xent`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )


def nt_xent(first: "Tensor", second: "Tensor", tau: float) -> "Tensor":
    """Mean of −log softmax over the 2N vectors, each against all but itself.

    first, second: (N, d), partners by row, of any length. Returns a scalar.
    """
    import torch
    from torch.nn import functional

    vectors = functional.normalize(torch.cat([first, second]), dim=-1)
    logits = vectors @ vectors.T / tau
    logits.fill_diagonal_(-torch.inf)
    rows = torch.arange(len(vectors), device=vectors.device)
    return functional.cross_entropy(logits, rows.roll(len(first)))


def build(model: "SentenceTransformer", params: NtXent, slots: Mapping[str, Path]) -> "nn.Module":
    """The loss module around the encoder."""
    from torch import Tensor, nn

    from tercet.models.losses.heads import HeadedEncoder, ProjectionHead

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

    head = ProjectionHead(int(model.get_embedding_dimension() or 0)) if params.head else None
    return NtXentLoss(model if head is None else HeadedEncoder(model, head), params.tau)


LOSS = Loss("nt_xent", NtXent, build, optional=())
