"""In-batch negatives, and hard negatives if the rows have them: InfoNCE.

sentence-transformers' MultipleNegativesRankingLoss (Henderson et al. 2017, arXiv:1705.00652,
section 4.4; van den Oord et al. 2018, arXiv:1807.03748, eq. 4), with scale 1 / tau.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


class InfoNce(Params):
    """Hyperparameters of the loss `info_nce`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )


def build(model: "SentenceTransformer", params: InfoNce, slots: Mapping[str, Path]) -> "nn.Module":
    """The loss module around the encoder."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from tercet.models.losses.heads import HeadedEncoder, ProjectionHead

    # That it encodes one column after the other, where rows have several negatives, or some none.
    logging.getLogger("sentence_transformers.base.losses.merged_forward").setLevel(logging.ERROR)
    head = ProjectionHead(int(model.get_embedding_dimension() or 0)) if params.head else None
    contrasted = model if head is None else HeadedEncoder(model, head)
    return MultipleNegativesRankingLoss(contrasted, scale=1 / params.tau)


LOSS = Loss("info_nce", InfoNce, build)
