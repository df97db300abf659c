"""GPT-2 with a latent head in each block (VAEGPT-Sim, section 3.1), on any GPT-2 checkpoint.

The output of block i is h_i + l_i W / e^(i+1), where l_i = mu_i + sigma_i epsilon is computed from
h_i.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, GPT2Model
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from tercet.models.generators import draws
from tercet.models.pretrained import loaded, network
from tercet.models.vaegpt.plugin.config import VaeGptConfig
from tercet.models.vaegpt.plugin.latent import LatentHead, noise_share


@dataclass
class Latents:
    """Noise and latent distributions of one forward pass.

    epsilon: (batch, tokens, blocks, width), used instead of drawing; None: drawn.
    counted: (batch, tokens), bool, the positions with a token; None: all.
    means, log_variances: per block, (batch, tokens, width); filled if `keep`.
    """

    epsilon: Tensor | None = None
    counted: Tensor | None = None
    keep: bool = False
    means: list[Tensor] = field(default_factory=list)
    log_variances: list[Tensor] = field(default_factory=list)


class LatentBlock(GPT2Block):  # type: ignore[misc]
    """A block of GPT-2 that adds noise to its output."""

    def __init__(self, config: VaeGptConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.config, self.number = config, layer_idx
        self.latent = LatentHead(config)

    def forward(
        self, hidden_states: Tensor, *args: Any, latents: Latents | None = None, **kwargs: Any
    ) -> Tensor:
        hidden: Tensor = super().forward(hidden_states, *args, **kwargs)
        latents = latents or Latents()
        share = noise_share(self.config.noise_weight, self.number + 1)
        # Without noise, and if the distribution is not needed, this is exactly GPT-2.
        if share == 0 and not latents.keep:
            return hidden
        mean, log_variance = self.latent(hidden, latents.counted)
        if latents.keep:
            latents.means.append(mean)
            latents.log_variances.append(log_variance)
        if share == 0:
            return hidden
        epsilon = None
        if latents.epsilon is not None:
            epsilon = latents.epsilon[:, :, self.number].to(mean)
        elif self.config.noise:
            epsilon = torch.randn_like(mean)
        return hidden + self.latent.added(mean, log_variance, epsilon) * share


class VaeGpt(GPT2LMHeadModel):  # type: ignore[misc]
    """The causal language model. `generate`, caches and saving work as in GPT-2.

    `forward` takes GPT-2's arguments, and:

    - noise: epsilon of every block, (batch, tokens of this call, blocks, hidden width), so that a
      row's draws do not depend on its batch. Without it epsilon is drawn from torch's generator,
      or 0 if `config.noise` is false.
    - latents: a `Latents` to fill, for training; its epsilon replaces `noise`.
    """

    config_class = VaeGptConfig

    def __init__(self, config: VaeGptConfig) -> None:
        super().__init__(config)
        blocks = [LatentBlock(config, i) for i in range(config.n_layer)]
        self.transformer.h = nn.ModuleList(blocks)
        self.post_init()

    def forward(
        self,
        *args: Any,
        noise: Tensor | None = None,
        latents: Latents | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> Any:
        latents = latents or Latents(epsilon=noise)
        arguments = {"latents": latents, "logits_to_keep": logits_to_keep, **kwargs}
        return super().forward(*args, **arguments)

    def row_noise(self, seeds: Tensor, positions: Tensor) -> Tensor | None:
        """`noise` from each row's seed and the positions of its tokens; None without noise.

        seeds: (batch,), int64. positions: (batch, tokens), int64.
        """
        config = self.config
        if not config.noise or config.noise_weight == 0:
            return None
        width = config.hidden_size
        drawn = draws.normals(seeds, positions, config.n_layer * width)
        return drawn.unflatten(-1, (config.n_layer, width))


def from_gpt2(directory: Path, **options: Any) -> VaeGpt:
    """A VAEGPT from a GPT-2 checkpoint; torch's generator initialises its latent heads.

    options: of `VaeGptConfig`. Raises ValueError if the checkpoint is not a GPT-2 or cannot be
    loaded.
    """
    plain = loaded(AutoConfig, directory)
    if type(plain) is not GPT2Config:
        raise ValueError(
            f"VAEGPT starts from a GPT-2 checkpoint, and {directory} is of the form "
            f"{plain.model_type}: name another init, or take the form causal or t5"
        )
    values = {k: v for k, v in plain.to_dict().items() if k not in ("model_type", "architectures")}
    # Not `from_pretrained`, which leaves missing weights uninitialised.
    model = VaeGpt(VaeGptConfig(**{**values, **options}))
    weights = network(GPT2LMHeadModel, directory, torch.float32).state_dict()
    missing, unknown = model.load_state_dict(weights, strict=False)
    assert not unknown
    assert all(".latent." in name for name in missing)
    return model


def frozen_judge(directory: Path) -> GPT2Model:
    """GPT-2 without its head, in fp32 and evaluation mode, without gradients.

    Raises ValueError if it cannot be loaded.
    """
    judge: GPT2Model = network(GPT2Model, directory, torch.float32)
    return judge.eval().requires_grad_(False)


# Importing this module enables `AutoModelForCausalLM` to load VAEGPT.
AutoConfig.register(VaeGptConfig.model_type, VaeGptConfig, exist_ok=True)
AutoModelForCausalLM.register(VaeGptConfig, VaeGpt, exist_ok=True)
