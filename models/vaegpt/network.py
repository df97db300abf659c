"""GPT-2 with a latent head in each block (VAEGPT-Sim, section 3.1), on any GPT-2 checkpoint.

Block i leaves h_i + l_i W / e^(i+1), where l_i = mu_i + sigma_i epsilon comes from h_i itself.
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
    """What one forward pass draws and finds in its blocks.

    epsilon: (batch, tokens, blocks, width) to use instead of drawing.
    counted: (batch, tokens) of truth, the positions that hold a token; None: all.
    means, log_variances: of each block, (batch, tokens, width); filled where `keep`.
    """

    epsilon: Tensor | None = None
    counted: Tensor | None = None
    keep: bool = False
    means: list[Tensor] = field(default_factory=list)
    log_variances: list[Tensor] = field(default_factory=list)


class LatentBlock(GPT2Block):  # type: ignore[misc]
    """A block of GPT-2 that adds noise to what it leaves."""

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
        # Without a share and without use for the distribution this is GPT-2, bit for bit.
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
    """The causal language model. `generate`, caches and saving work as GPT-2's do.

    `forward` takes GPT-2's arguments, and:

    - noise: epsilon of every block, (batch, tokens of this call, blocks, hidden width), so that a
      row's draws do not depend on its batch. Without it epsilon is drawn from torch's generator,
      or is 0 where `config.noise` is false.
    - latents: a `Latents` to fill, for training; it has its own epsilon.
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
        """`noise` as a function of each row's seed and its tokens' positions; None without noise.

        seeds: (batch,); positions: (batch, tokens), both int64.
        """
        config = self.config
        if not config.noise or config.noise_weight == 0:
            return None
        width = config.hidden_size
        drawn = draws.normals(seeds, positions, config.n_layer * width)
        return drawn.unflatten(-1, (config.n_layer, width))


def from_gpt2(directory: Path, **options: Any) -> VaeGpt:
    """A VAEGPT on a GPT-2 checkpoint; its heads are drawn from torch's generator.

    options: of `VaeGptConfig`. Raises ValueError where the checkpoint is not a GPT-2, or cannot be
    loaded.
    """
    plain = loaded(AutoConfig, directory)
    if type(plain) is not GPT2Config:
        raise ValueError(
            f"VAEGPT starts from a GPT-2 checkpoint, and {directory} is of the form "
            f"{plain.model_type}: name another init, or take the form causal or t5"
        )
    values = {k: v for k, v in plain.to_dict().items() if k not in ("model_type", "architectures")}
    # Not `from_pretrained`, which leaves what the checkpoint lacks to uninitialised memory.
    model = VaeGpt(VaeGptConfig(**{**values, **options}))
    weights = network(GPT2LMHeadModel, directory, torch.float32).state_dict()
    missing, unknown = model.load_state_dict(weights, strict=False)
    assert not unknown
    assert all(".latent." in name for name in missing)
    return model


def frozen_judge(directory: Path) -> GPT2Model:
    """The original GPT-2 without its head: never trained, without dropout, in fp32.

    Raises ValueError where it cannot be loaded.
    """
    judge: GPT2Model = network(GPT2Model, directory, torch.float32)
    return judge.eval().requires_grad_(False)


# So that `AutoModelForCausalLM` loads a checkpoint wherever this module has been imported.
AutoConfig.register(VaeGptConfig.model_type, VaeGptConfig, exist_ok=True)
AutoModelForCausalLM.register(VaeGptConfig, VaeGpt, exist_ok=True)
