"""NT-Xent: each of a batch's 2N texts finds its partner among all the others.

Chen et al. 2020, arXiv:2002.05709, eq. 1, as Generate-CSE uses it: unlike `info_nce`, it also
contrasts anchors with anchors, and both texts of a pair serve as the query.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


class NtXent(Params):
    """Hyperparameters of the loss `nt_xent`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )


def build(model: "SentenceTransformer", params: NtXent, slots: Mapping[str, Path]) -> "nn.Module":
    """The loss module around the encoder."""
    from tercet.models.losses.heads import HeadedEncoder, ProjectionHead
    from tercet.models.losses.nt_xent_loss import NtXentLoss

    head = ProjectionHead(int(model.get_embedding_dimension() or 0)) if params.head else None
    return NtXentLoss(model if head is None else HeadedEncoder(model, head), params.tau)


LOSS = Loss("nt_xent", NtXent, build, optional=())
