"""Pushes each row's negative farther away than its positive, whatever else is in the batch.

The pairwise logistic loss on cosines (RankNet, Burges et al. 2005, eq. 3, with a temperature): for
rows whose negative changes one fact and whose positive keeps all of them, so that the order of the
two is right by construction.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from tercet.models.losses.loss import Params

TAU = 0.05


def pairwise_logistic_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean loss of a batch, and the rows' cosines of positive and negative.

    Row i has softplus((cos(a_i, n_i) - cos(a_i, p_i)) / tau): log 2 where both are as near, about 0
    where the positive is nearer by more than a few tau.

    anchor, positive, negative: vectors (batch, dimension), of any length.
    """
    cosine = nn.functional.cosine_similarity
    near, far = cosine(anchor, positive, dim=-1), cosine(anchor, negative, dim=-1)
    loss = nn.functional.softplus((far - near) / TAU).mean()
    return loss, near.detach(), far.detach()


class PairwiseLogisticLoss(nn.Module):  # type: ignore[misc]
    """Each row's own negative farther away than its own positive.

    Inputs: (anchor, positive, negative); labels are ignored. After each forward pass `terms`
    has the batch's means: `in_order`, the share of rows whose positive is nearer, and the
    cosines `positive` and `negative`.
    """

    def __init__(
        self, model: SentenceTransformer, params: Params, slots: Mapping[str, Path]
    ) -> None:
        super().__init__()
        self.model = model
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """The batch's mean loss, of three feature dictionaries."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(vectors) != 3:
            raise ValueError(
                f"The loss pairwise_logistic got {len(vectors)} columns of text: pass anchor, "
                "positive and negative."
            )
        # Cosines over tau need more than bf16's 8 bits: no autocast here.
        with torch.autocast(vectors[0].device.type, enabled=False):
            anchor, positive, negative = (v.float() for v in vectors)
            loss, near, far = pairwise_logistic_loss(anchor, positive, negative)
        in_order = (near > far).float().mean()
        self.terms = {"in_order": in_order, "positive": near.mean(), "negative": far.mean()}
        return loss
