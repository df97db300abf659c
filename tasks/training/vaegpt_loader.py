"""What VAEGPT starts from: its network on a GPT-2, and its objective."""

from typing import TYPE_CHECKING, Any

from tercet.models.precision import computed_in
from tercet.tasks.stage import Work

if TYPE_CHECKING:
    from tercet.models.training.fit_generator import Objective
    from tercet.tasks.training.fit_generator import FitGeneratorConfig


def load_vaegpt(work: Work, config: "FitGeneratorConfig") -> "tuple[Any, Objective]":
    """The model and its objective. Raises ValueError."""
    from tercet.models.vaegpt import fitting

    device, judge = work.resources.device, work.models.get("judge")
    bf16 = computed_in(config.precision, device) == "bf16"
    return fitting.load_vaegpt(work.models["init"], config.vaegpt, device, bf16, judge)
