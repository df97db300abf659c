"""A loss at several dimensions of the vectors, so that they can be truncated.

sentence-transformers' MatryoshkaLoss (Kusupati et al. 2022, arXiv:2205.13147, eq. 1, all weights
1): the sum of the inner loss on the whole vectors and on their first dimensions, renormalised. Each
text is encoded once.
"""

from collections.abc import Mapping
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss

from tercet.models.losses.registry import Matryoshka, loss_of, params_of


def matryoshka(
    model: SentenceTransformer, params: Matryoshka, slots: Mapping[str, Path]
) -> MatryoshkaLoss:
    """Builds the library's loss around the encoder. Raises ValueError for too short vectors."""
    width = int(model.get_embedding_dimension() or 0)
    if max(params.dimensions) >= width:
        raise ValueError(
            f"dimensions: {max(params.dimensions)} is no beginning of the encoder's {width} "
            "numbers: take fewer"
        )
    within = loss_of(params.within).build(model, params_of(params.within), slots)
    return MatryoshkaLoss(model, within, [width, *params.dimensions])
