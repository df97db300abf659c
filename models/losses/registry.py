"""The losses by name. A new one is a module with `LOSS`, and a line here."""

from collections.abc import Mapping
from importlib import import_module

from tercet.models.losses.loss import Loss

# Modules by name, so that editing one loss retrains only its own phases. No torch is loaded.
LOSSES: Mapping[str, str] = {
    "definition": "tercet.models.losses.definition",
    "gaussian_decay": "tercet.models.losses.gaussian_decay",
    "guided": "tercet.models.losses.guided",
    "in_batch": "tercet.models.losses.in_batch",
    "nt_xent": "tercet.models.losses.nt_xent",
    "strict": "tercet.models.losses.strict",
    "token_reconstruction": "tercet.models.losses.token_reconstruction",
}


def loss_named(name: str) -> Loss:
    """The loss that a recipe names. Raises ValueError if there is none of that name."""
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}: choose one of {', '.join(LOSSES)}")
    loss: Loss = import_module(LOSSES[name]).LOSS
    return loss
