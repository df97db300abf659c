"""Pushes each row's negative farther away than its positive, whatever else is in the batch.

The pairwise logistic loss on cosines (RankNet, Burges et al. 2005, eq. 3, with a temperature): for
rows whose negative changes one fact and whose positive keeps all of them, so that the order of the
two is right by construction. Its module lies in `pairwise_logistic_loss.py`, which needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


def build(model: "SentenceTransformer", params: Params, slots: Mapping[str, Path]) -> "nn.Module":
    """The loss module around the encoder."""
    from tercet.models.losses.pairwise_logistic_loss import PairwiseLogisticLoss

    return PairwiseLogisticLoss(model)


LOSS = Loss(
    name="pairwise_logistic",
    params=Params,
    build=build,
    texts=("anchor", "positive", "negative"),
    optional=(),
    terms=("in_order", "positive", "negative"),
)
