"""Which step's weights a phase of training leaves: those that were the best on a dev set.

The best weights so far lie beside the checkpoints. Measuring draws no random numbers
and leaves the model unchanged, so that a training is the same with it and without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from tercet.models.training import checkpoints


class NothingToChoose(Exception):
    """No step's weights could be measured: one sentence for a person."""


@dataclass(frozen=True)
class Choice:
    """How steps are compared.

    every: the model is measured after so many steps, and after the last.
    metric: what is measured, as the table `evaluations` calls it.
    measure: the model's figure, the higher the better; None where it has none (it has collapsed).
    """

    every: int
    metric: str
    measure: Callable[[Any], float | None]


class Chooser:
    """Keeps the best weights of one phase; of equally good ones, the earlier.

    network: what is measured. module: what it is a part of, whose weights are kept.
    """

    def __init__(
        self, choice: Choice, network: nn.Module, module: nn.Module, directory: Path
    ) -> None:
        self._choice, self._network, self._module = choice, network, module
        self._directory = directory
        self._best: tuple[int, float] | None = None

    def due(self, step: int, last: bool) -> bool:
        """Whether the weights after this step are measured."""
        return last or step % self._choice.every == 0

    def look(self, step: int) -> dict[str, Any]:
        """Measures the weights after this step and keeps them if they are the best so far."""
        value = self._choice.measure(self._network)
        if value is not None and (self._best is None or value > self._best[1]):
            kept = checkpoints.weights(self._module)
            checkpoints.write_tensors(self._directory / _name(step), kept)
            self._best = (step, value)
        return {"dev_metric": self._choice.metric, "dev_value": value}

    def state(self) -> dict[str, Any]:
        """What a checkpoint must contain for the training to resume from it."""
        return {} if self._best is None else {"step": self._best[0], "value": self._best[1]}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint: later measurements are made again."""
        self._best = (int(state["step"]), float(state["value"])) if state else None

    def tidy(self) -> None:
        """Removes weights that no checkpoint mentions any more."""
        kept = None if self._best is None else _name(self._best[0])
        for path in self._directory.glob("best-*.safetensors"):
            if path.name != kept:
                path.unlink()

    def restore(self) -> int:
        """Puts the best weights into the module; returns their step."""
        if self._best is None:
            raise NothingToChoose(
                f"train: {self._choice.metric} could not be measured after any step, since the "
                "model gives NaN or cannot tell texts apart: lower the learning rate."
            )
        step = self._best[0]
        weights = checkpoints.read_tensors(self._directory, _name(step))
        checkpoints.put_weights(self._module, weights)
        return step


def _name(step: int) -> str:
    return f"best-{step}.safetensors"
