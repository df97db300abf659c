"""An encoder between two of one architecture, weight by weight (WiSE-FT, arXiv:2109.01903)."""

import torch
from sentence_transformers import SentenceTransformer


def mix_weights(
    untouched: SentenceTransformer, trained: SentenceTransformer, mix: float
) -> SentenceTransformer:
    """The trained encoder, its weights replaced by (1 − mix) · untouched + mix · trained.

    mix: in [0, 1]; at its ends the weights are exactly those of one encoder. Tensors of whole
    numbers stay.
    Raises: ValueError with one sentence where the two have other weights or shapes.
    """
    before, after = untouched.state_dict(), trained.state_dict()
    shapes = [{name: tuple(of[name].shape) for name in of} for of in (before, after)]
    if shapes[0] != shapes[1]:
        differing = sorted(dict(set(shapes[0].items()) ^ set(shapes[1].items())))
        raise ValueError(
            f"the untouched and the trained encoder differ in the shapes of {len(differing)} "
            f"weights ({differing[0]}), so there is nothing between them: only encoders trained "
            "from one backbone can be mixed"
        )
    with torch.no_grad():
        for name, weight in after.items():
            if not weight.is_floating_point():
                continue
            start = before[name].to(weight.device, torch.float32)
            if mix == 0:
                weight.copy_(start)
            elif mix != 1:
                weight.copy_((1 - mix) * start + mix * weight.to(torch.float32))
    return trained
