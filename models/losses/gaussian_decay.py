"""The Gaussian-decayed contrastive loss of GCSE (eqs. 12-13): hyperparameters, and how it is built.

The loss itself lies in `gaussian_decay_loss.py`, which needs torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.losses.loss import Loss, Params

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


TEACHER = "teacher"


class GaussianDecay(Params):
    """Hyperparameters of the loss `gaussian_decay`."""

    tau: float = Field(default=0.05, gt=0.0, le=10.0, description="Temperature.")
    sigma_cosine: float = Field(
        default=0.2,
        ge=0.0,
        le=2.0,
        description="Half-width sigma of the Gaussian, in cosine: 0.01 in the paper, 0.0085 in its "
        "code. At 0.2, chosen on dev with negatives by rules, a row's own negative gets next to no "
        "gradient; 0 means no decay.",
    )
    gate: Literal["symmetric", "one_sided"] = Field(
        default="symmetric",
        description="symmetric (the paper), or one_sided (its code): decay only where the "
        "student's cosine is at most the teacher's.",
    )
    detach: Literal["opening", "term", "none"] = Field(
        default="opening",
        description="What is a constant in the gradient: opening, the gate's; term, all that the "
        "gate takes off the logit (the paper's code); none, nothing (its equation).",
    )
    head: bool = Field(
        default=False, description="A dense layer with tanh on the vector, in training only."
    )

    @model_validator(mode="after")
    def _same_space(self) -> "GaussianDecay":
        if self.head and self.sigma_cosine > 0:
            raise InvalidSetting(
                "conflict",
                "head: true with the Gaussian decay would compare the student's cosine after the "
                "head with the teacher's, which has none: leave out head, or set sigma_cosine: 0",
            )
        return self


def build(
    model: "SentenceTransformer", params: GaussianDecay, slots: Mapping[str, Path]
) -> "nn.Module":
    """The loss module around the encoder."""
    from tercet.models.losses.gaussian_decay_loss import GaussianDecayLoss
    from tercet.models.losses.heads import ProjectionHead

    head = ProjectionHead(int(model.get_embedding_dimension() or 0)) if params.head else None
    return GaussianDecayLoss(
        model, params.tau, params.sigma_cosine, params.gate, params.detach, head
    )


def with_params(params: GaussianDecay) -> Loss:
    """The loss: without decay it has no use for a teacher."""
    return LOSS if params.sigma_cosine > 0 else replace(LOSS, may_read=())


LOSS = Loss(
    name="gaussian_decay",
    params=GaussianDecay,
    build=build,
    texts=("anchor", "positive", "negative"),
    optional=(),
    # The teacher's cosine of the negative, in [-1, 1]; without one the negative counts in full.
    labels={"label": pa.float32()},
    # Where a part names one, training makes the label of each batch's own texts with it.
    may_read=(TEACHER,),
    terms=("gate_opening", "gradient_share", "student_negative", "teacher_negative"),
    resolve=with_params,
)
