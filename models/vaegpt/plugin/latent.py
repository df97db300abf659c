"""The latent head of a block, and how much of its draw is added to the hidden state."""

import math
from typing import Any

import torch
from torch import Tensor, nn

# GPT-2 has this dropout everywhere.
DROPOUT = 0.1
# The scale keeps the KL from vanishing (Zhu et al. 2020, section 3): a dimension's KL is at least
# GAMMA^2 / 2 on average, whatever its weights; this value is in the range where the authors find
# the best perplexity.
GAMMA = 0.5


def noise_share(weight: float, block: int) -> float:
    """W / e^(i+1), the share of block i's latent that joins the hidden state (section 3.1).

    block: i, counted from 1. With W = 0.1 it is 1.4e-2 in the first block and 2e-7 in the twelfth.
    """
    return weight / math.exp(block + 1)


class LatentHead(nn.Module):  # type: ignore[misc]
    """Mean and log variance of a block's latent from its hidden state, and a draw from them.

    config: a `VaeGptConfig`.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.width = width
        self.dropout = nn.Dropout(DROPOUT)
        self.mean = nn.Linear(width, width)
        self.log_variance = nn.Linear(width, width)
        self.mean_norm = FixedScaleNorm(width, GAMMA)
        self.log_variance_norm = FixedScaleNorm(width, GAMMA)

    def forward(self, hidden: Tensor, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """mu and log sigma^2, each (..., width), of hidden states (..., hidden).

        counted: (...) booleans: positions that hold a token. Other positions have no part in the
        statistics of batch normalisation.
        """
        hidden = self.dropout(hidden)
        mean = self.mean_norm(self.mean(hidden), counted)
        return mean, self.log_variance_norm(self.log_variance(hidden), counted)

    def added(self, mean: Tensor, log_variance: Tensor, epsilon: Tensor | None) -> Tensor:
        """l = mu + sigma epsilon, as wide as the hidden state; without epsilon l = mu."""
        return mean if epsilon is None else mean + torch.exp(log_variance / 2) * epsilon


class FixedScaleNorm(nn.Module):  # type: ignore[misc]
    """Batch normalisation over tokens with a fixed scale and a learnt shift (Zhu et al. 2020).

    In training the statistics come from the batch's tokens, in evaluation from running means, so
    that a position then depends on nothing after it.
    """

    def __init__(self, width: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, values: Tensor, counted: Tensor | None = None) -> Tensor:
        """(..., width) to the same shape; positions that are not counted become `self.shift`."""
        flat = values.reshape(-1, values.shape[-1])
        if not self.training or counted is None:
            normed = self.norm(flat)
        else:
            chosen = counted.reshape(-1)
            normed = torch.zeros_like(flat)
            normed[chosen] = self.norm(flat[chosen]).to(normed.dtype)
        return self.gamma * normed.view_as(values) + self.shift
