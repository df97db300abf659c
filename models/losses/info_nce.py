"""InfoNCE with in-batch negatives, and hard negatives if the rows have them.

sentence-transformers' MultipleNegativesRankingLoss (Henderson et al. 2017, arXiv:1705.00652,
section 4.4; van den Oord et al. 2018, arXiv:1807.03748, eq. 4), with scale 1 / tau.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from tercet.models.losses.heads import headed
from tercet.models.losses.registry import InBatch


def info_nce(
    model: SentenceTransformer, params: InBatch, slots: Mapping[str, Path]
) -> MultipleNegativesRankingLoss:
    """Builds the library's loss around the encoder."""
    # The library warns when it cannot merge columns because some rows lack a negative.
    logging.getLogger("sentence_transformers.base.losses.merged_forward").setLevel(logging.ERROR)
    return MultipleNegativesRankingLoss(headed(model, params.head), scale=1 / params.tau)
