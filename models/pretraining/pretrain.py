"""Trains a language model on tokenised texts, with its loss on held-out texts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from tercet.models.pretraining import tokenizer as tokenizers
from tercet.models.pretraining.batches import Inputs, Task, TextBatches, Texts, Vocabulary
from tercet.models.pretraining.network import LanguageModel
from tercet.models.training.loop import (
    Choice,
    LogRow,
    Setting,
    adafactor,
    adamw,
    phase_seed,
    train,
)
from tercet.models.training.phase import Hyperparameters, Schedule

# The metric's name in the log.
LOSS = "loss"
_WARMUP, _WEIGHT_DECAY = 0.06, 0.01


@dataclass(frozen=True)
class Budget:
    """Learning rate, and length of training in either tokens of text or steps."""

    learning_rate: float
    lr_schedule: Schedule
    tokens: int | None
    steps: int | None
    measure_steps: int


def pretrain(
    name: str,
    model: Any,
    tokenizer: Any,
    texts: Texts,
    held_out: Texts,
    task: Task,
    budget: Budget,
    setting: Setting,
) -> list[LogRow]:
    """Trains the model in place, from the last checkpoint if there is one; returns the log.

    With held-out texts the model keeps the weights of the step with the lowest loss on them; that
    loss is the log's `dev_value`, in nats. The log's terms are `tokens`, the mean per step, and
    `tokens_per_second`, both without padding. Raises ValueError or NothingToChoose if the loss is
    not finite.
    """
    entries = vocabulary(tokenizer)
    batches = TextBatches(texts, task, entries, phase_seed(setting.seed, name))
    network = LanguageModel(model, task.form)
    if len(held_out):
        measured = list(_measured(held_out, task, entries))
        choice = Choice(budget.measure_steps, LOSS, lambda module: _minus_loss(module, measured))
        setting = replace(setting, choice=choice)
    hyper = Hyperparameters(
        name=name,
        learning_rate=budget.learning_rate,
        warmup=_WARMUP,
        lr_schedule=budget.lr_schedule,
        weight_decay=_WEIGHT_DECAY,
        max_steps=_steps(budget, batches),
    )

    def step(inputs: Inputs) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        lengths = inputs["lengths"]
        terms = {"tokens": lengths.sum().float(), "rows": torch.tensor(float(len(lengths)))}
        return network(**inputs), terms

    optimizing = adafactor if task.form == "t5" else adamw
    log = train(network, batches, step, hyper, setting, optimizing=optimizing)
    return [_finished(row) for row in log]


def vocabulary(tokenizer: Any) -> Vocabulary:
    """The tokenizer's ids for the noise functions."""
    padding = tokenizer.pad_token_id
    return Vocabulary(
        size=len(tokenizer),
        special=np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64),
        padding=tokenizer.eos_token_id if padding is None else padding,
        mask=-1 if tokenizer.mask_token_id is None else tokenizer.mask_token_id,
        end=-1 if tokenizer.eos_token_id is None else tokenizer.eos_token_id,
        sentinels=tuple(tokenizers.sentinels(tokenizer)),
    )


def _steps(budget: Budget, batches: TextBatches) -> int:
    if budget.steps is not None:
        return budget.steps
    assert budget.tokens is not None
    return max(1, math.ceil(budget.tokens / batches.tokens * len(batches)))


def _measured(texts: Texts, task: Task, vocabulary: Vocabulary) -> Iterable[Inputs]:
    """The held-out texts once, always with the same noise; for T5 without infilling."""
    batches = TextBatches(texts, replace(task, infill=0.0), vocabulary, 0)
    return (batches[place].inputs for place in range(len(batches)))


def _minus_loss(module: LanguageModel, measured: Iterable[Inputs]) -> float | None:
    """The negated mean loss, since a `Choice` takes the highest value; None if not finite."""
    device = next(module.parameters()).device
    total = count = 0.0
    module.eval()
    with torch.no_grad():
        for inputs in measured:
            answers = float((inputs["answers"] >= 0).sum())
            loss = module(**{name: tensor.to(device) for name, tensor in inputs.items()})
            total, count = total + float(loss) * answers, count + answers
    loss = total / max(count, 1.0)
    return -loss if math.isfinite(loss) else None


def _finished(row: LogRow) -> LogRow:
    """The log row with the rate in tokens, and the held-out loss with its sign restored."""
    terms = dict(row["terms"])
    rows, value = terms.pop("rows", None), row["dev_value"]
    if rows and row["rows_per_second"] is not None:
        terms["tokens_per_second"] = row["rows_per_second"] * terms["tokens"] / rows
    return {**row, "terms": terms, "dev_value": None if value is None else -value}
