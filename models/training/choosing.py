"""Which step's weights a phase of training leaves: those that were the best on a dev set.

The best weights so far lie beside the checkpoints. Measuring draws nothing and leaves the model as
it was, so that a training goes the same way with it and without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from tercet.models.training import checkpoints


class NothingToChoose(Exception):
    """No step's weights could be measured: one sentence for a person."""


@dataclass(frozen=True)
class Choice:
    """How steps are compared.

    every: the model is measured after so many steps, and after the last.
    metric: what is measured, in the words of the table `evaluations`.
    measure: the model's figure, the higher the better; None where it has none (it has collapsed).
    """

    every: int
    metric: str
    measure: Callable[[SentenceTransformer], float | None]


class Chooser:
    """Keeps the best weights of one phase, the earlier ones of equals."""

    def __init__(self, choice: Choice, model: SentenceTransformer, directory: Path) -> None:
        self._choice, self._model, self._directory = choice, model, directory
        self._best: tuple[int, float] | None = None

    def due(self, step: int, last: bool) -> bool:
        """Whether the weights after this step are measured."""
        return last or step % self._choice.every == 0

    def look(self, step: int) -> dict[str, Any]:
        """Measures the weights after this step and keeps them where none were better."""
        value = self._choice.measure(self._model)
        if value is not None and (self._best is None or value > self._best[1]):
            checkpoints.write_tensors(self._directory / _name(step), self._model.state_dict())
            self._best = (step, value)
        return {"dev_metric": self._choice.metric, "dev_value": value}

    def state(self) -> dict[str, Any]:
        """What a checkpoint must say for the training to go on from it."""
        return {} if self._best is None else {"step": self._best[0], "value": self._best[1]}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint: what was seen after it is seen again."""
        self._best = (int(state["step"]), float(state["value"])) if state else None

    def tidy(self) -> None:
        """Removes weights that no checkpoint speaks of any more."""
        kept = None if self._best is None else _name(self._best[0])
        for path in self._directory.glob("best-*.safetensors"):
            if path.name != kept:
                path.unlink()

    def restore(self) -> int:
        """Puts the best weights into the model; the step that they are of."""
        if self._best is None:
            raise NothingToChoose(
                f"train: {self._choice.metric} could be measured after no step, since the encoder "
                "tells texts not apart or gives NaN: lower the learning rate."
            )
        step = self._best[0]
        weights = checkpoints.read_tensors(self._directory, _name(step))
        self._model.load_state_dict(weights)
        return step


def _name(step: int) -> str:
    return f"best-{step}.safetensors"
