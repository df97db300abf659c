"""The configuration of a VAEGPT checkpoint: GPT-2's, and what the latent heads need."""

from typing import Any

from transformers import GPT2Config


class VaeGptConfig(GPT2Config):  # type: ignore[misc]
    """GPT-2's configuration with the numbers of the latent noise.

    The paper leaves some of them open; the reasons for our defaults stand here.

    Args:
        noise_weight: W of h_i + l_i W / e^(i+1); 0.1 in the paper, 0 gives plain GPT-2.
        noise: draw epsilon. False: l is the mean, so that the output is a function of the input.
        latent_width: of mu, sigma and l; None: the hidden width. The paper adds l to h without a
            projection, so they are equally wide there. A smaller width adds a linear map back.
        latent_dropout: before the two linear maps; 0.1, as everywhere in GPT-2.
        latent_norm: batch normalisation of mu and of log sigma^2 with a fixed scale. It keeps the
            KL from vanishing (Zhu et al. 2020, section 3): a dimension's KL is at least gamma^2 / 2
            on average, whatever its weights.
        latent_gamma: that scale; 0.5, in the range in which Zhu et al. find the best perplexity.
    """

    model_type = "vaegpt"

    def __init__(
        self,
        noise_weight: float = 0.1,
        noise: bool = True,
        latent_width: int | None = None,
        latent_dropout: float = 0.1,
        latent_norm: bool = True,
        latent_gamma: float = 0.5,
        **kwargs: Any,
    ) -> None:
        self.noise_weight = noise_weight
        self.noise = noise
        self.latent_width = latent_width
        self.latent_dropout = latent_dropout
        self.latent_norm = latent_norm
        self.latent_gamma = latent_gamma
        super().__init__(**kwargs)
