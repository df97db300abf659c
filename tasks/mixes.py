"""The encoder between an untouched and a trained one that a stage's config asks for."""

from typing import Any

from tercet.tasks.encoders import load_encoder
from tercet.tasks.stage import BadInput, Work

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of the training a candidate has, from the most cautious one on."""


def load_mix(work: Work, trained: str, mix: float) -> Any:
    """The encoder in the slot `untouched` (mix 0), that in the slot `trained` (1), or between.

    Raises: BadInput if one cannot be loaded, and where their weights have other shapes.
    """
    from tercet.models.encoders.mixing import mix_weights

    if mix == 1:
        return load_encoder(work, trained)
    untouched = load_encoder(work, "untouched", work.config.cnn_seed)
    if mix == 0:
        return untouched
    try:
        return mix_weights(untouched, load_encoder(work, trained), mix)
    except ValueError as error:
        raise BadInput(f"choose: {error}; leave `choose` out of the recipe.") from error
