"""Small language models, trained for a few steps."""

from pathlib import Path
from typing import Any

import torch

from tercet.models.pretraining import network
from tercet.models.pretraining import tokenizer as tokenizers
from tercet.models.pretraining.batches import Task, tokenised
from tercet.models.pretraining.forms import Form
from tercet.models.pretraining.pretrain import Budget, pretrain
from tercet.models.training.loop import LogRow, Setting

VOCABULARY: dict[Form, int] = {"masked": 90, "causal": 280, "t5": 160}
BUDGET = Budget(3e-3, cosine=False, tokens=None, steps=40, measure_steps=10)


def trained(
    form: Form, texts: list[str], folder: Path, budget: Budget = BUDGET, **changes: Any
) -> tuple[Any, list[LogRow]]:
    """A model of two layers trained on the texts, whose last thirty are held out; and its log."""
    made = tokenizers.trained(form, VOCABULARY[form], 48, lambda: iter([texts]))
    torch.manual_seed(4)
    model = network.made(form, network.Shape(2, 32, 2, 48), made)
    parts = [
        tokenised(folder / name, iter([part]), made, form, 48)
        for name, part in (("train", texts[:-30]), ("dev", texts[-30:]))
    ]
    task = Task(form, 0.2, 0.3, 48, 512)
    given = {"directory": folder / "checkpoints", "seed": 11, "log_steps": 5} | changes
    return model, pretrain("small", model, made, *parts, task, budget, Setting(**given))
