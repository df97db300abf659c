"""A T5 that learns to write and judge a few words, by the same call in a test and its child."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from tiny_t5 import tiny_t5

from tercet.models import seeding
from tercet.models.t5 import fitting, wording
from tercet.models.t5.fitting import Gense
from tercet.models.t5.wording import Question
from tercet.models.training.loop import Setting
from tercet.models.training.phase import Hyperparameters

COLOURS = ["red", "green", "blue", "black"]
THINGS = ["door", "cat", "boat", "hat", "car", "cup"]
WORDS = [*COLOURS, *THINGS, "the", "is", "not", ".", "true", "false"]
TEMPLATES = ["Say", "what", "follows", "from", "contradicts", ":", "Known", "Claimed"]
VOCABULARY = [*WORDS, *TEMPLATES, "True", "or", "?"]
STEPS = 12


def init(folder: Path) -> Path:
    """A random T5 that knows these words and those of the templates."""
    return folder if folder.exists() else tiny_t5(folder, VOCABULARY)


def pairs(count: int = 48) -> pa.Table:
    """A thing has its colour, which the other text repeats or denies."""
    rows = []
    for number in range(count):
        colour, thing = COLOURS[number % 4], THINGS[number // 4 % 6]
        anchor = f"the {thing} is {colour} ."
        for true in (True, False):
            text = f"{colour} {thing}" if true else f"the {thing} is not {colour}"
            rows.append((anchor, f"{text} {'.' * (number // 24)}".strip(), true))
    anchors, texts, truths = zip(*rows, strict=True)
    ids = pa.array(seeding.text_ids(anchors, texts), pa.uint64())
    return pa.table({"row_id": ids, "anchor": anchors, "text": texts, "true": truths})


def opened(folder: Path, max_length: int = 32) -> Gense:
    """The random model with its layout and its question."""
    return fitting.opened(
        init(folder), Question(max_length=max_length, templates=wording.builtin_templates())
    )


def fitted(
    folder: Path,
    work: Path,
    steps: int = STEPS,
    progress: Callable[[int, int | None, str], None] = lambda done, total, unit: None,
    rate: float = 3e-3,
    **more: Any,
) -> tuple[Gense, list[dict[str, Any]]]:
    """The fitted model and its log."""
    gense = opened(folder)
    # Dropout of its own is drawn from here on.
    torch.manual_seed(1)
    numbers = Hyperparameters(name="g", batch_size=16, learning_rate=rate, max_steps=steps)
    rows = pairs()
    setting = Setting(
        directory=work,
        seed=2,
        log_steps=2,
        checkpoint_seconds=1e9,
        checkpoint_steps=2,
        progress=progress,
        choice=fitting.choice(gense, rows.slice(0, 8), 5, 4),
        **more,
    )
    return gense, fitting.fit(gense, rows, numbers, setting, "adamw")
