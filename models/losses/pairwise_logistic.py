"""Pushes each row's negative farther away than its positive, independently of the batch.

The pairwise logistic loss on cosines (RankNet, Burges et al. 2005, eq. 3, with a temperature), for
rows whose positive keeps all facts and whose negative changes one, so that their order is certain.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from tercet.models.config import Config

TAU = 0.05


def pairwise_logistic_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean loss of a batch, and the cosines of positives and negatives, (batch,) each.

    Row i has softplus((cos(a_i, n_i) - cos(a_i, p_i)) / tau): log 2 if both are equally near, about
    0 if the positive is nearer by more than a few tau.

    anchor, positive, negative: vectors (batch, dimension), of any norm.
    """
    cosine = nn.functional.cosine_similarity
    near, far = cosine(anchor, positive, dim=-1), cosine(anchor, negative, dim=-1)
    loss = nn.functional.softplus((far - near) / TAU).mean()
    return loss, near.detach(), far.detach()


class PairwiseLogisticLoss(nn.Module):  # type: ignore[misc]
    """Ranks each row's positive above its negative.

    Inputs: (anchor, positive, negative); labels are ignored. After each forward pass `terms`
    has the batch's means: `in_order`, the share of rows whose positive is nearer, and the
    cosines `positive` and `negative`.
    """

    def __init__(
        self, model: SentenceTransformer, params: Config, slots: Mapping[str, Path]
    ) -> None:
        super().__init__()
        self.model = model
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """The batch's mean loss, from three feature dictionaries."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(vectors) != 3:
            raise ValueError(
                f"The loss pairwise_logistic got {len(vectors)} columns of text: pass anchor, "
                "positive and negative."
            )
        # No autocast: cosines over tau need more than bf16's 8 bits.
        with torch.autocast(vectors[0].device.type, enabled=False):
            anchor, positive, negative = (v.float() for v in vectors)
            loss, near, far = pairwise_logistic_loss(anchor, positive, negative)
        in_order = (near > far).float().mean()
        self.terms = {"in_order": in_order, "positive": near.mean(), "negative": far.mean()}
        return loss
