"""The loop: its schedule, its log, and where it ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_run import without_rate

from tercet.models.training import checkpoints
from tercet.models.training.loop import Batch, Choice, Setting, adafactor, adamw, linear, train
from tercet.models.training.phase import Hyperparameters


class Stop(Exception):
    pass


def stops_at(step: int) -> Callable[[int, int | None, str], None]:
    def progress(done: int, total: int | None, unit: str) -> None:
        if done == step:
            raise Stop

    return progress


class Counted:
    """Batches that are their step's number."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._epoch

    def __getitem__(self, step: int) -> Batch:
        return Batch(2, {"number": torch.full((2,), float(step))})


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(1.0))
        self.bias = torch.nn.Parameter(torch.tensor(0.0))


def run(
    directory: Path, numbers: Hyperparameters, **changes: object
) -> tuple[list[dict[str, object]], list[float]]:
    """The log, and the number of each step's batch."""
    line, seen = Line(), []

    def step(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        number = inputs["number"][0]
        seen.append(float(number))
        odd = torch.where(number % 2 == 1, number, torch.nan)
        return (line.slope * number + line.bias) * 0 + number, {"odd": odd}

    setting = Setting(directory, seed=1, **{"log_steps": 1, **changes})  # type: ignore[arg-type]
    return train(line, Counted(4), step, numbers, setting), seen


def test_the_learning_rate_rises_then_falls_to_zero(tmp_path: Path) -> None:
    log, _ = run(tmp_path, Hyperparameters(learning_rate=1e-3, warmup=0.4, max_steps=10))
    shares = [0, 1 / 4, 2 / 4, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    # The log gives the rate of the step just taken.
    assert [row["learning_rate"] for row in log] == pytest.approx([1e-3 * s for s in shares])


def test_the_learning_rate_is_constant_after_a_number_of_steps(tmp_path: Path) -> None:
    numbers = Hyperparameters(
        learning_rate=1e-3, warmup=0.9, warmup_steps=2, lr_schedule="constant", max_steps=5
    )
    log, _ = run(tmp_path, numbers)
    assert [row["learning_rate"] for row in log] == pytest.approx([0, 5e-4, 1e-3, 1e-3, 1e-3])


def test_once_the_weights_are_lost_no_more_steps_are_taken(tmp_path: Path) -> None:
    line, seen = Line(), []

    def step(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        seen.append(len(seen) + 1)
        return line.slope * (torch.nan if len(seen) == 5 else 1.0), {}

    def measure(module: torch.nn.Module) -> float | None:
        return float(line.slope.detach()) if bool(line.slope.isfinite()) else None

    setting = Setting(tmp_path, seed=1, log_steps=1, choice=Choice(2, "slope", measure))
    log = train(line, Counted(20), step, Hyperparameters(max_steps=20), setting)
    assert seen == [1, 2, 3, 4, 5]
    assert [row["step"] for row in log if row["chosen"]] == [2]
    assert bool(line.slope.isfinite())
    again = train(Line(), Counted(20), step, Hyperparameters(max_steps=20), setting)
    assert [row["step"] for row in again] == [1, 2, 3, 4, 5]
    assert len(seen) == 5


def test_no_warm_up_and_nothing_but_warm_up() -> None:
    assert [linear(step, 4, 0) for step in range(4)] == [1, 0.75, 0.5, 0.25]
    assert [linear(step, 4, 4) for step in range(4)] == [0, 0.25, 0.5, 0.75]


def test_steps_run_on_through_the_epochs_and_the_log_has_means(tmp_path: Path) -> None:
    log, seen = run(tmp_path, Hyperparameters(epochs=2.25), log_steps=2)
    assert seen == list(range(9))
    assert [row["step"] for row in log] == [2, 4, 6, 8, 9]
    assert [row["epoch"] for row in log] == [0.5, 1, 1.5, 2, 2.25]
    assert [row["loss"] for row in log] == [0.5, 2.5, 4.5, 6.5, 8]
    # Means over the steps that have a number; the last step has none.
    assert [row["terms"] for row in log] == [*({"odd": odd} for odd in (1, 3, 5, 7)), {}]


def test_means_go_on_from_a_checkpoint_between_two_rows_of_the_log(tmp_path: Path) -> None:
    numbers = Hyperparameters(epochs=2.25)
    log, _ = run(tmp_path / "whole", numbers, log_steps=4)
    given: dict[str, Any] = {"log_steps": 4, "checkpoint_steps": 1}
    with pytest.raises(Stop):
        run(tmp_path / "work", numbers, progress=stops_at(8), **given)
    again, seen = run(tmp_path / "work", numbers, **given)
    assert seen == [7, 8]
    assert without_rate(again) == without_rate(log)


def test_a_loss_that_is_not_a_number_ends_the_training(tmp_path: Path) -> None:
    line = Line()

    def step(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        number = inputs["number"][0]
        return line.slope * (torch.nan if number == 3 else number), {}

    setting = Setting(tmp_path, seed=1, log_steps=2, checkpoint_steps=2)
    numbers = Hyperparameters(name="warm", max_steps=8)
    with pytest.raises(ValueError, match=r"warm.* step 4"):
        train(line, Counted(8), step, numbers, setting)
    kept = checkpoints.latest(tmp_path)
    assert kept is not None
    assert kept.name == "checkpoint-2"


def test_adafactors_rate_is_relative_to_the_weights() -> None:
    large, small = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    small.weight.data.copy_(large.weight.data / 100)
    module = torch.nn.ModuleList([large, small])
    moved = {}
    for name, make in (("adafactor", adafactor), ("adamw", adamw)):
        before = [part.weight.detach().clone() for part in module]
        optimizer = make(module, Hyperparameters(learning_rate=0.05))
        for part in module:
            part.weight.grad = torch.ones(8, 8)
        optimizer.step()
        moved[name] = [
            float((part.weight.detach() - old).norm() / old.norm())
            for part, old in zip(module, before, strict=True)
        ]
    assert moved["adafactor"] == pytest.approx([0.05, 0.05], rel=0.05)
    assert moved["adamw"][1] > 50 * moved["adamw"][0]


def test_weight_decay_spares_biases_and_norms() -> None:
    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    module = torch.nn.Sequential(frozen, torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    groups = adamw(module, Hyperparameters(weight_decay=0.125)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.125, 0.0]
    shapes = [[list(p.shape) for p in group["params"]] for group in groups]
    assert shapes == [[[3, 2]], [[3], [3], [3]]]


def test_epsilon_holds_back_weights_with_small_gradients() -> None:
    """Adam's first step is rate * g / (|g| + epsilon), whatever the size of g without epsilon."""
    moved = {}
    for epsilon in (1e-8, 1e-3):
        module = torch.nn.Linear(1, 1, bias=False)
        before = module.weight.detach().clone()
        module.weight.grad = torch.full((1, 1), 1e-3)
        adamw(module, Hyperparameters(learning_rate=1e-2, epsilon=epsilon)).step()
        moved[epsilon] = float((before - module.weight).detach())
    assert moved == pytest.approx({1e-8: 1e-2, 1e-3: 0.5e-2}, rel=1e-3)
