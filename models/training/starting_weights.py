"""What a phase keeps of the weights that it starts from: lower layers, or a share of them all."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from sentence_transformers import SentenceTransformer
from torch import nn


@contextmanager
def frozen(model: SentenceTransformer, layers: int) -> Iterator[None]:
    """Inside, the token embeddings and this many of the lowest layers do not train; 0: all train.

    No gradient is computed below the first layer that trains, which saves that part of the
    backward pass. Raises ValueError where the encoder has fewer layers.
    """
    if layers == 0:
        yield
        return
    first = model[0]
    network = getattr(first, "auto_model", None) or getattr(first, "model", None)
    if not isinstance(network, nn.Module):
        raise ValueError("frozen_layers: the encoder has no transformer: leave frozen_layers out")
    stack = _layers(network)
    if layers >= len(stack):
        raise ValueError(
            f"frozen_layers: {layers} of the encoder's {len(stack)} layers leaves none to train: "
            f"freeze {len(stack) - 1} or fewer"
        )
    below = [*_embeddings(network), *stack[:layers]]
    still = [p for part in below for p in part.parameters() if p.requires_grad]
    for parameter in still:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in still:
            parameter.requires_grad_(True)


@contextmanager
def blended(model: nn.Module, share: float) -> Iterator[None]:
    """Afterwards the weights are this share of those before and the rest of those made inside.

    A model between the two often does better than both ends (Wortsman et al. 2022, section 3,
    equation 1, where 1 - share is alpha). share: from 0 to 1; 0: the weights made inside.
    """
    if not share:
        yield
        return
    before = {name: p.detach().cpu().clone() for name, p in model.named_parameters()}
    yield
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.lerp_(before[name].to(parameter), share)


def _embeddings(network: nn.Module) -> list[nn.Module]:
    """The module of all embeddings, or of the tokens' alone where the network has no such."""
    found = getattr(network, "embeddings", None)
    return [found if isinstance(found, nn.Module) else network.get_input_embeddings()]


def _layers(network: nn.Module) -> nn.ModuleList:
    """The encoder's layers, from the lowest: the first list of as many modules as it has layers."""
    count = getattr(network.config, "num_hidden_layers", 0)
    lists = (m for m in network.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
    found = next(lists, None) if count else None
    if found is None:
        raise ValueError(
            f"frozen_layers: {type(network).__name__} has no list of layers that could be frozen: "
            "leave frozen_layers out"
        )
    return found
