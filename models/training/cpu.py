"""Cheaper training steps on a CPU: the same gradients, and dropout with draws of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

# A batch reads few rows of a larger matrix of embeddings; dense gradients of smaller ones are
# faster.
_LARGE_VOCABULARY = 4096
_ATTENTION = "tercet_training_on_cpu"


@contextmanager
def faster_on_cpu(module: nn.Module) -> Iterator[None]:
    """Replaces the parts of a step that a CPU is slow at, and restores them at the end.

    - The gradient of a large embedding is summed as sparse rows, and made dense once in a backward
      pass, instead of one dense matrix for each lookup.
    - Dropout masks, also those of attention, come from 16 random bits an element, ten times as fast
      as `bernoulli_`. Their seed is drawn from torch's generator, so that a forward pass that is
      repeated for cached gradients has the same masks.
    """
    with ExitStack() as restored:
        for part in module.modules():
            if isinstance(part, nn.Embedding) and part.num_embeddings > _LARGE_VOCABULARY:
                if part.weight.requires_grad and not part.sparse:
                    part.sparse = True
                    restored.callback(setattr, part, "sparse", False)
                    hook = part.weight.register_post_accumulate_grad_hook(_make_dense)
                    restored.callback(hook.remove)
            elif type(part) is nn.Dropout and 0 < part.p < 1:
                part.forward = partial(_dropout, part)
                restored.callback(delattr, part, "forward")
            elif isinstance(part, PreTrainedModel) and part.config._attn_implementation == "sdpa":
                part.set_attn_implementation(_ATTENTION)
                restored.callback(part.set_attn_implementation, "sdpa")
        yield


def _make_dense(weight: Tensor) -> None:
    if weight.grad is not None and weight.grad.is_sparse:
        weight.grad = weight.grad.to_dense()


def _dropout(module: nn.Dropout, values: Tensor) -> Tensor:
    return values * dropout_mask(values, module.p) if module.training else values


def dropout_mask(values: Tensor, share: float) -> Tensor:
    """Factors of the shape and type of `values`: 0 for this share, drawn to 1/65,536, of the
    elements, else 1 / (1 - share).

    share: from 0 to 1, both excluded.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-values.numel() // 4))
    bits = torch.from_numpy(words.view(np.int16))[: values.numel()]
    factors = bits.ge_(round(share * 65_536) - 32_768).to(values.dtype)
    return factors.mul_(1 / (1 - share)).view(values.shape)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' `sdpa`, with masks of `dropout_mask` where an encoder has dropout.

    query, key, value: (texts, heads, tokens, dimension). attention_mask: True where a token is
        read, or added to the scores. Returns (texts, tokens, heads, dimension).
    """
    causal = attention_mask is None and getattr(module, "is_causal", True)
    grouped = key.shape[1] != query.shape[1]
    if causal or grouped or scaling is None or position_bias is not None or not 0 < dropout < 1:
        others |= {"position_bias": position_bias}
        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **others
        )
        return plain
    scores = (query * scaling) @ key.mT
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            unread = torch.finfo(scores.dtype).min
            attention_mask = scores.new_zeros(attention_mask.shape).masked_fill_(
                ~attention_mask, unread
            )
        scores = scores + attention_mask
    weights = scores.softmax(-1)
    weights = weights * dropout_mask(weights, dropout)
    return (weights @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
