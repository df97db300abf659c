"""Dropout pairs: a text and itself, told apart in training by two dropout masks alone."""

from collections.abc import Iterable

import pyarrow.compute as pc
from torch import nn

from tercet.models.losses.loss import Loss
from tercet.models.training.phase import Hyperparameters, PartRows


def check(
    model: nn.Module,
    hyper: Hyperparameters,
    parts: Iterable[PartRows],
    losses: Iterable[Loss],
) -> None:
    """Raises ValueError where every positive of a part would get its anchor's own vector."""
    if hyper.word_repetition or drops(model):
        return
    for part, loss in zip(parts, losses, strict=True):
        if "positive" not in loss.texts or part.drawing is not None:
            continue
        if pc.all(pc.equal(part.rows["anchor"], part.rows["positive"])).as_py():
            raise ValueError(
                f"{hyper.name}: each text is its own positive, and the encoder has no dropout "
                "that would give it another vector: take other rows, or a backbone with dropout"
            )


def drops(model: nn.Module) -> bool:
    """Whether dropout is active in training, as a module or as a share that a module has."""
    return any(
        isinstance(value, float) and value > 0 and _is_share(module, name)
        for module in model.modules()
        for name, value in vars(module).items()
    )


def _is_share(module: nn.Module, name: str) -> bool:
    return "drop" in name or (name == "p" and "Dropout" in type(module).__name__)
