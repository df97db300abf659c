"""In-batch negatives without those that a frozen guide takes for positives.

sentence-transformers' GISTEmbedLoss (Solatorio 2024, arXiv:2402.16829, section 3): another row's
text that is nearer to the anchor than its own positive, by the guide's cosines, is left out of the
softmax. Its module lies in `guided_loss.py`, which needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


class Guided(Params):
    """Hyperparameters of the loss `guided`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    margin: float = Field(
        default=0.0,
        ge=0.0,
        le=2.0,
        description="A negative is left out if the guide's cosine of it is above that of the "
        "positive less this.",
    )


def build(model: "SentenceTransformer", params: Guided, slots: Mapping[str, Path]) -> "nn.Module":
    """The loss module around the encoder."""
    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.losses.guided_loss import GuidedLoss

    return GuidedLoss(model, load_encoder(slots["guide"]), params.tau, params.margin)


LOSS = Loss("guided", Guided, build, slots=("guide",))
