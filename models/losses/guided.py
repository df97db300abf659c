"""In-batch negatives without those that a frozen guide takes for positives.

sentence-transformers' GISTEmbedLoss (Solatorio 2024, arXiv:2402.16829, section 3): another row's
text that is nearer to the anchor than its own positive, by the guide's cosines, is left out of the
softmax. Its module lies in `guided_loss.py`, which needs torch.
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
    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.losses.guided_loss import GuidedLoss

    return GuidedLoss(model, load_encoder(slots["guide"]))


LOSS = Loss("guided", Params, build, slots=("guide",))
