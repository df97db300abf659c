"""Trains any module; a training that is resumed after a kill gives the same weights.

All random draws follow from (seed, phase, step): each step seeds its own dropout, so that
checkpoints need no state of random generators. AdamW, the linear schedule with warm-up and the
clipping are the defaults of sentence-transformers' trainer.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from accelerate.utils import convert_outputs_to_fp32, send_to_device
from torch import Tensor, nn

from tercet.errors import TercetError
from tercet.models import seeding
from tercet.models.machine import Precision, computed_in, keep_freed_memory
from tercet.models.training import checkpoints
from tercet.models.training.cpu import faster_on_cpu
from tercet.models.training.phase import Hyperparameters, Optimizer, Schedule


class NothingToChoose(TercetError):
    """No step's weights could be measured."""


@dataclass(frozen=True)
class Choice:
    """How the best step is found.

    every: steps between two measurements; the last step is measured too.
    metric: the name of the figure in the table `evaluations`.
    measure: the model's figure, higher is better; None for a collapsed model, which has none.
    """

    every: int
    metric: str
    measure: Callable[[Any], float | None]


class Chooser:
    """Keeps the best weights of one phase; among equally good weights, the earliest.

    network: the part of `module` that is measured. module: its weights are kept.
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
            weights = checkpoints.weights(self._module)
            checkpoints.write_tensors(self._directory / _name(step), weights)
            self._best = (step, value)
        return {"dev_metric": self._choice.metric, "dev_value": value}

    def state(self) -> dict[str, Any]:
        """The state to save in a checkpoint."""
        return {} if self._best is None else {"step": self._best[0], "value": self._best[1]}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self._best = (int(state["step"]), float(state["value"])) if state else None

    def tidy(self) -> None:
        """Removes weights that no checkpoint names any more."""
        best = None if self._best is None else _name(self._best[0])
        for path in self._directory.glob("best-*.safetensors"):
            if path.name != best:
                path.unlink()

    def restore(self) -> int:
        """Puts the best weights into the module; returns their step."""
        if self._best is None:
            raise NothingToChoose(
                "damaged",
                f"train: {self._choice.metric} could not be measured after any step, since the "
                "model gives NaN or cannot tell texts apart: lower the learning rate.",
            )
        step = self._best[0]
        weights = checkpoints.read_tensors(self._directory, _name(step))
        checkpoints.put_weights(self._module, weights)
        return step


def _name(step: int) -> str:
    return f"best-{step}.safetensors"


LogRow = dict[str, Any]
Progress = Callable[[int, int | None, str], None]
Step: TypeAlias = Callable[[Any], tuple[Tensor, Mapping[str, Tensor]]]
Optimizing: TypeAlias = Callable[[nn.Module, Hyperparameters], torch.optim.Optimizer]

# The norm to which gradients are clipped, transformers' default.
_LONGEST_GRADIENT = 1.0
# Parameters of these names, and all of a LayerNorm, have no weight decay, as in transformers.
_NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)")


@dataclass(frozen=True)
class Setting:
    """Where and how a training runs; only seed, precision and choice change the result.

    directory: of the checkpoints from which the training resumes.
    checkpoint_seconds, checkpoint_steps: a checkpoint is written at the first step after either has
        passed since the last one.
    choice: how the best step is found, whose weights the phase leaves; None: the last step.
    """

    directory: Path
    seed: int
    precision: Precision = "fp32"
    device: str = "cpu"
    log_steps: int = 10
    checkpoint_seconds: float = 60.0
    checkpoint_steps: int | None = None
    progress: Progress = lambda done, total, unit: None
    choice: Choice | None = None


@dataclass(frozen=True)
class Batch:
    """rows: their number, for the log's rate. inputs: of a step, tensors at any depth."""

    rows: int
    inputs: Any


class Batches(Protocol):
    """The batches of a training."""

    def __len__(self) -> int:
        """Batches of one epoch."""

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step, counted from 0 through all epochs; it depends only on the step."""


def train(
    module: nn.Module,
    batches: Batches,
    step: Step,
    hyper: Hyperparameters,
    setting: Setting,
    network: nn.Module | None = None,
    optimizing: Optimizing | None = None,
) -> list[LogRow]:
    """Trains the module in place, from the last checkpoint in the directory if there is one.

    step: gives the loss of a batch's inputs, a scalar, and detached scalars by name, whose means
        (without NaN) go into the log.
    network: the part of the module whose forward pass runs in the setting's precision, whose
        gradients are clipped, and which the setting's choice measures; None: the module itself.
    optimizing: makes the optimizer of the module's parameters; None: `adamw`.
    Returns the rows of the log, as `Trained` describes them. Raises ValueError if the logged loss
    is NaN or infinite, unless a choice keeps the weights of an earlier step.
    """
    network = module if network is None else network
    device = torch.device(setting.device)
    keep_freed_memory()
    module.to(device).train()
    chooser = None
    if setting.choice is not None:
        chooser = Chooser(setting.choice, network, module, setting.directory)
    total = hyper.steps(len(batches))
    warmup, factor_at = hyper.warmup_of(total), SCHEDULES[hyper.lr_schedule]
    step_seed = phase_seed(setting.seed, hyper.name)
    optimizer = (optimizing or adamw)(module, hyper)
    log, done = _Log(), 0

    setting.directory.mkdir(parents=True, exist_ok=True)
    checkpoint = checkpoints.latest(setting.directory)
    if checkpoint is not None:
        checkpoints.load_weights(module, checkpoint)
        state = checkpoints.read_json(checkpoint, "log.json")
        if state["finished"]:
            module.eval()
            return list(state["rows"])
        checkpoints.load_optimizer(optimizer, checkpoint)
        log.resume(state["rows"], state["sums"])
        done = state["step"]
        if chooser is not None:
            chooser.resume(state["best"])

    def save(finished: bool) -> None:
        best = {} if chooser is None else chooser.state()
        state = {"step": done, "rows": log.rows, "sums": log.sums(), "best": best}
        state["finished"] = finished
        kept = None if finished else optimizer
        checkpoints.write_training(setting.directory, done, module, kept, state)
        if chooser is not None:
            chooser.tidy()

    saved_at, saved_step = time.monotonic(), done
    faster = faster_on_cpu(module) if device.type == "cpu" else nullcontext()
    with faster, _precision(network, setting.precision, device):
        for number in range(done, total):
            draws = seeding.draws(step_seed, "step", np.array([number], dtype=np.uint64))
            torch.manual_seed(int(draws[0]))
            rate = hyper.learning_rate * factor_at(number, total, warmup)
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch = batches[number]
            loss, terms = step(send_to_device(batch.inputs, device))
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), _LONGEST_GRADIENT)
            optimizer.step()
            optimizer.zero_grad()
            done, last = number + 1, number + 1 == total
            log.add(loss.detach(), terms, batch.rows)
            setting.progress(done, total, "steps")
            measured = None
            if chooser is not None and chooser.due(done, last):
                began = time.monotonic()
                measured = chooser.look(done)
                module.train()
                log.pause(time.monotonic() - began)
            logged = last or done % setting.log_steps == 0
            if logged or measured is not None:
                log.note(done, done / len(batches), rate if logged else None, measured)
                # With a chooser, the weights of an earlier step may still be good.
                if logged and chooser is None and not math.isfinite(log.rows[-1]["loss"]):
                    raise ValueError(
                        f"train: phase {hyper.name}: the loss is {log.rows[-1]['loss']} after "
                        f"step {done}, and the encoder is lost: lower the learning rate, or use "
                        "precision: fp32"
                    )
            if logged and _lost(log.rows[-1]["loss"], network):
                # Only steps before this one can be chosen.
                break
            due = time.monotonic() - saved_at >= setting.checkpoint_seconds
            if setting.checkpoint_steps is not None:
                due = due or done - saved_step >= setting.checkpoint_steps
            if due and not last:
                save(finished=False)
                saved_at, saved_step = time.monotonic(), done

    chosen = total if chooser is None else chooser.restore()
    for row in log.rows:
        row["chosen"] = row["step"] == chosen
    save(finished=True)
    module.eval()
    return log.rows


def _lost(loss: float, module: nn.Module) -> bool:
    """Whether a weight is NaN or infinite: no later step can repair the model."""
    if math.isfinite(loss):
        return False
    return not all(bool(weight.isfinite().all()) for weight in module.parameters())


def adamw(module: nn.Module, hyper: Hyperparameters) -> torch.optim.Optimizer:
    """AdamW, with weight decay only on matrices."""
    groups = _groups(module, hyper.weight_decay)
    return torch.optim.AdamW(groups, lr=hyper.learning_rate, eps=hyper.epsilon, fused=True)


def adafactor(module: nn.Module, hyper: Hyperparameters) -> torch.optim.Optimizer:
    """Adafactor (Shazeer and Stern 2018): the rate is relative to each matrix's root mean square.

    T5 was pre-trained with it: its embeddings are up to a hundred times as large as its other
    weights, and would hardly move at an absolute rate that suits the other weights.
    """
    groups = _groups(module, hyper.weight_decay)
    return torch.optim.Adafactor(groups, lr=hyper.learning_rate)


OPTIMIZERS: Mapping[Optimizer, Optimizing] = {"adamw": adamw, "adafactor": adafactor}


def phase_seed(seed: int, phase: str) -> int:
    """The seed of a phase's draws, independent of other phases."""
    return seeding.text_id(str(seed), phase)


def linear(step: int, total: int, warmup: int) -> float:
    """Factor on the learning rate at a step from 0: up to 1 over the warm-up, then down to 0."""
    if step < warmup:
        return step / warmup
    return (total - step) / max(1, total - warmup)


def cosine(step: int, total: int, warmup: int) -> float:
    """Like `linear`, but the rate falls along half a cosine."""
    if step < warmup:
        return step / warmup
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / max(1, total - warmup))


def constant(step: int, total: int, warmup: int) -> float:
    """Like `linear`, but the rate stays at 1."""
    return step / warmup if step < warmup else 1.0


SCHEDULES: Mapping[Schedule, Callable[[int, int, int], float]] = {
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
}


def _groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The parameters with weight decay, and the parameters without."""
    norms = [part for part in module.modules() if isinstance(part, nn.LayerNorm)]
    free = {id(parameter) for norm in norms for parameter in norm.parameters()}
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            decays = id(parameter) not in free and _NO_DECAY.search(name.lower()) is None
            groups[decays].append(parameter)
    return [
        {"params": groups[True], "weight_decay": weight_decay},
        {"params": groups[False], "weight_decay": 0.0},
    ]


@contextmanager
def _precision(network: nn.Module, precision: Precision, device: torch.device) -> Iterator[None]:
    """The network's forward pass under autocast, with outputs in fp32 for the loss."""
    if computed_in(precision, device.type) == "fp32":
        yield
        return
    plain = network.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            return plain(*args, **kwargs)

    network.forward = convert_outputs_to_fp32(forward)
    try:
        yield
    finally:
        # Uncovers the class's method.
        del network.forward


class _Log:
    """The log's rows; values of the steps since the last row are summed on the device."""

    def __init__(self) -> None:
        self.rows: list[LogRow] = []
        self._since = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._steps = self._trained = 0
        self._loss: Tensor | float = 0.0
        self._terms: dict[str, tuple[Tensor | float, Tensor | float]] = {}

    def sums(self) -> dict[str, Any]:
        """The sums since the last row, for `resume`."""
        terms = {name: (float(total), float(n)) for name, (total, n) in self._terms.items()}
        counted = {"steps": self._steps, "trained": self._trained, "loss": float(self._loss)}
        return {**counted, "terms": terms, "seconds": time.monotonic() - self._since}

    def resume(self, rows: list[LogRow], sums: Mapping[str, Any]) -> None:
        """Continues from a checkpoint's rows and sums."""
        self.rows, self._since = rows, time.monotonic() - sums["seconds"]
        self._steps, self._trained = sums["steps"], sums["trained"]
        self._loss, self._terms = sums["loss"], dict(sums["terms"])

    def add(self, loss: Tensor, terms: Mapping[str, Tensor], rows: int) -> None:
        """Adds one step."""
        self._steps, self._trained = self._steps + 1, self._trained + rows
        self._loss = self._loss + loss
        for name, value in terms.items():
            total, count = self._terms.get(name, (0.0, 0.0))
            self._terms[name] = (total + torch.nan_to_num(value), count + ~torch.isnan(value))

    def pause(self, seconds: float) -> None:
        """Excludes a pause in training from the rate."""
        self._since += seconds

    def note(self, step: int, epoch: float, rate: float | None, measured: LogRow | None) -> None:
        """Adds a row. Without a learning rate it has only the dev measure, and the sums go on."""
        row: LogRow = {"step": step, "epoch": epoch, "loss": None, "terms": {}}
        row |= {"learning_rate": rate, "rows_per_second": None}
        if rate is not None:
            now = time.monotonic()
            means = {name: (float(total), float(n)) for name, (total, n) in self._terms.items()}
            row["loss"] = float(self._loss) / self._steps
            row["terms"] = {name: total / n for name, (total, n) in means.items() if n}
            row["rows_per_second"] = self._trained / max(now - self._since, 1e-9)
            self._since = now
            self._clear()
        self.rows.append({**row, **(measured or {"dev_metric": None, "dev_value": None})})
