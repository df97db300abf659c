"""Random draws for tokens, as tensors: functions of (row seed, purpose, position, index) alone.

A row has the same draws in every batch and on every device. The bits equal SplitMix64 in `seeding`,
computed in torch's int64, which wraps around like uint64.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

# Purposes; a row's draws for different purposes are independent.
TOKEN, NOISE = 1, 2


def uniforms(seeds: Tensor, purpose: int, positions: Tensor, indices: Tensor) -> Tensor:
    """Draws in (0, 1) as float64, of the shape that the int64 arguments broadcast to."""
    mixed = _mix(_mix(_mix(seeds + (purpose << 32)) ^ _mix(positions)) ^ _mix(indices))
    return (_shifted(mixed, 12).double() + 0.5) * 2.0**-52


def normals(seeds: Tensor, positions: Tensor, width: int) -> Tensor:
    """Standard normal draws in float32, for a model's noise.

    seeds: (rows,). positions: (rows, tokens), position of each token in its row. Returns (rows,
    tokens, width).
    """
    indices = torch.arange(width, device=seeds.device)
    drawn = uniforms(seeds[:, None, None], NOISE, positions[:, :, None], indices)
    return torch.special.ndtri(drawn).float()


def _mix(values: Tensor) -> Tensor:
    x = values + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _shifted(values: Tensor, count: int) -> Tensor:
    """Logical shift to the right."""
    return (values >> count) & ((1 << (64 - count)) - 1)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def row_noise(model: PreTrainedModel, seeds: Tensor, positions: Tensor) -> Tensor | None:
    """The argument `noise` of the model's forward for these tokens; None for a model without noise.

    seeds: (rows,), int64. positions: (rows, tokens), int64, from 0 in each row, without padding. A
    model with noise has a method `row_noise(seeds, positions)`, which draws with `draws.normals`
    and returns a tensor of shape (rows, tokens, ...).
    """
    draw = getattr(model, "row_noise", None)
    return None if draw is None else draw(seeds, positions)
