"""Hyperparameters of VAEGPT in a recipe. No torch here."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class VaeGptHyperparameters(BaseModel):
    """Noise, losses, and the points that the paper leaves open, each with our reason."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    noise_weight: float = Field(
        default=0.1, ge=0.0, le=1e6, description="W; block i adds W / e^(i+1) of its latent."
    )
    kl_weight: float = Field(default=1e-4, ge=0.0, le=1e6, description="W_KL, of the summed KL.")
    target_weight: float = Field(
        default=1.0, ge=0.0, le=1e6, description="Of 1 - cosine by the frozen judge."
    )
    cross_entropy: float = Field(
        default=1.0,
        ge=0.0,
        le=1e6,
        description="Of the target's cross-entropy, which the paper does not have (0).",
    )
    gumbel_temperature: float = Field(
        default=1.0,
        gt=0.0,
        le=100.0,
        description="Of the soft tokens that carry the judge's gradient",
    )
    pooling: Literal["mean", "last"] = Field(
        default="mean", description="How the judge's states become a sentence's vector."
    )
    centre: bool = Field(
        default=True,
        description="Take the batch's mean off the judge's vectors before they are compared.",
    )
    latent_width: int | None = Field(
        default=None, ge=1, description="Of the latent; null: the hidden states'."
    )
    latent_dropout: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="Before the latent heads"
    )
    latent_norm: bool = Field(
        default=True, description="Batch normalisation of mean and log variance, against a KL of 0."
    )
    latent_gamma: float = Field(
        default=0.5, gt=0.0, le=100.0, description="Fixed scale of that normalisation."
    )

    def of_network(self) -> dict[str, float | bool | int | None]:
        """What the network's own configuration holds."""
        return self.model_dump(include={"noise_weight", *_LATENT})


_LATENT = ("latent_width", "latent_dropout", "latent_norm", "latent_gamma")
