"""The configuration of a VAEGPT checkpoint: GPT-2's, and settings of the latent heads."""

from typing import Any

from transformers import GPT2Config


class VaeGptConfig(GPT2Config):  # type: ignore[misc]
    """GPT-2's configuration with the numbers of the latent noise.

    Args:
        noise_weight: W of h_i + l_i W / e^(i+1); 0.1 in the paper, 0 gives plain GPT-2.
        noise: draw epsilon. False: l is the mean, so that the output is a function of the input.
    """

    model_type = "vaegpt"

    def __init__(
        self,
        noise_weight: float = 0.1,
        noise: bool = True,
        **kwargs: Any,
    ) -> None:
        self.noise_weight = noise_weight
        self.noise = noise
        super().__init__(**kwargs)
