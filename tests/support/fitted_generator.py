"""A generator fitted to pairs of a few words, by the same call from a test and from its child."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from tiny_generators import SEPARATOR, tiny_causal, tiny_seq2seq

from tercet.models import pretrained, seeding
from tercet.models.generators.layout import Layout
from tercet.models.training import fit_generator
from tercet.models.training.fit_generator import Fitted, choice_by_rouge, fit
from tercet.models.training.loop import Setting
from tercet.models.training.phase import Hyperparameters, Optimizer
from tercet.models.vaegpt.fitting import load_vaegpt
from tercet.models.vaegpt.settings import VaeGptHyperparameters

WORDS = ["red", "green", "blue", "one", "two", "three", "old", "new"]
STEPS = 12


def pairs(count: int = 40) -> pa.Table:
    """Pairs of four words, of which the target has two exchanged."""
    sources = [
        " ".join(WORDS[(number * 7 + place * (1 + number % 3)) % 8] for place in range(4))
        for number in range(count)
    ]
    targets = [" ".join([b, a, c, d]) for a, b, c, d in map(str.split, sources)]
    ids = seeding.text_ids(sources, targets, list(map(str, range(count))))
    row_ids = pa.array(ids, pa.uint64())
    return pa.table({"row_id": row_ids, "source": sources, "target": targets})


def opened(form: str, folder: Path) -> Fitted:
    """A random model of the form, with its objective."""
    if not folder.exists():
        if form == "t5":
            tiny_seq2seq(folder, WORDS)
        else:
            tiny_causal(folder, WORDS, sharpness=0.05)
    tokenizer = pretrained.load_tokenizer(folder)
    torch.manual_seed(1)
    found: Any
    if form == "vaegpt":
        found = load_vaegpt(folder, VaeGptHyperparameters())
    elif form == "causal":
        found = fit_generator.load_causal(folder)
    else:
        found = fit_generator.load_t5(folder)
    separator = None if form == "t5" else SEPARATOR
    layout = Layout(form=form, separator=separator, max_length=32)  # type: ignore[arg-type]
    return Fitted(found[0], tokenizer, layout, found[1])


def fitted(
    form: str,
    folder: Path,
    work: Path,
    steps: int = STEPS,
    progress: Callable[[int, int | None, str], None] = lambda done, total, unit: None,
    optimizer: Optimizer = "adamw",
    rate: float = 3e-3,
    **more: Any,
) -> tuple[Any, list[dict[str, Any]]]:
    """The fitted model and its log."""
    # As other tests of a process may have set it, and its child not: sums would round differently.
    torch.set_num_threads(1)
    one = opened(form, folder)
    numbers = Hyperparameters(name="g", batch_size=8, learning_rate=rate, max_steps=steps)
    rows = pairs()
    choice = choice_by_rouge(one, rows.slice(0, 4), 5, 4)
    setting = Setting(
        directory=work,
        seed=2,
        log_steps=2,
        checkpoint_seconds=1e9,
        checkpoint_steps=2,
        progress=progress,
        choice=choice,
        **more,
    )
    return one.model, fit(one, rows, numbers, setting, optimizer)
