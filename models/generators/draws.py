"""Draws about a row's tokens, as tensors: functions of (row seed, purpose, position, index) alone.

A row draws the same in every batch and on every device. The bits are those of `seeding`'s
SplitMix64, in torch's int64, which wraps around as uint64 does.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

# Purposes: one row's draws for one are independent of those for another.
TOKEN, NOISE = 1, 2


def uniforms(seeds: Tensor, purpose: int, positions: Tensor, indices: Tensor) -> Tensor:
    """Draws in (0, 1) as float64, of the shape that the int64 arguments broadcast to."""
    mixed = _mix(_mix(_mix(seeds + (purpose << 32)) ^ _mix(positions)) ^ _mix(indices))
    return (_shifted(mixed, 12).double() + 0.5) * 2.0**-52


def normals(seeds: Tensor, positions: Tensor, width: int) -> Tensor:
    """Standard normal draws in float32, for a model's noise.

    seeds: (rows,). positions: (rows, tokens), of the tokens in their row. Returns (rows, tokens,
    width).
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
    """Shifted right, with zeros from the left."""
    return (values >> count) & ((1 << (64 - count)) - 1)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def row_noise(model: PreTrainedModel, seeds: Tensor, positions: Tensor) -> Tensor | None:
    """What the model's forward takes as `noise` for these tokens; None for a model without noise.

    seeds: (rows,), int64. positions: (rows, tokens), int64, from 0 in each row, padding not
    counted. A model with noise has a method `row_noise(seeds, positions)`, which draws with
    `draws.normals` and returns a tensor whose first two dimensions are rows and tokens.
    """
    draw = getattr(model, "row_noise", None)
    return None if draw is None else draw(seeds, positions)
