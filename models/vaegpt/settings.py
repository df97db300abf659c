"""Hyperparameters of VAEGPT in a recipe. This module must not import torch."""

from pydantic import Field

from tercet.models.config import Config


class VaeGptHyperparameters(Config):
    """Weights of VAEGPT's noise and losses."""

    noise_weight: float = Field(
        default=0.1, ge=0.0, le=1e6, description="W; block i adds W / e^(i+1) of its latent."
    )
    kl_weight: float = Field(
        default=1e-4, ge=0.0, le=1e6, description="W_KL, the weight of the summed KL."
    )
    cross_entropy: float = Field(
        default=1.0,
        ge=0.0,
        le=1e6,
        description="Weight of the target's cross-entropy; 0: none, as in the paper.",
    )
