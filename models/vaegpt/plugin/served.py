"""VAEGPT as vLLM serves it: vLLM's GPT-2, with a latent head behind each block.

Noise is drawn by the server, anew for every token that it reads. Therefore prefix caching must be
off: it would give all generations of one prompt the same noise in the prompt. A checkpoint whose
configuration says `noise: false` adds the mean alone, as transformers does.
"""

from typing import Any

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.models.gpt2 import GPT2Block, GPT2LMHeadModel

from .latent import LatentHead, noise_share


class LatentBlock(GPT2Block):  # type: ignore[misc]
    """A block of vLLM's GPT-2, taken over with its weights, and its head."""

    def __init__(self, block: GPT2Block, config: Any, number: int) -> None:
        nn.Module.__init__(self)
        for name, part in block.named_children():
            setattr(self, name, part)
        self.latent = LatentHead(config)
        self.share = noise_share(config.noise_weight, number)
        self.noise = config.noise

    def forward(self, hidden_states: Tensor) -> Tensor:
        hidden: Tensor = super().forward(hidden_states)
        if self.share == 0:
            return hidden
        mean, log_variance = self.latent(hidden)
        epsilon = torch.randn_like(mean) if self.noise else None
        return hidden + self.latent.added(mean, log_variance, epsilon) * self.share


class VaeGpt(GPT2LMHeadModel):  # type: ignore[misc]
    """vLLM's GPT-2 with latent blocks; it loads the checkpoint that transformers wrote."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        if vllm_config.cache_config.enable_prefix_caching:
            raise ValueError("VAEGPT needs prefix caching off: --no-enable-prefix-caching")
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        blocks = self.transformer.h
        for place, block in enumerate(blocks):
            # Blocks of other pipeline stages are stand-ins here.
            if isinstance(block, GPT2Block):
                blocks[place] = LatentBlock(block, self.config, place + 1)
