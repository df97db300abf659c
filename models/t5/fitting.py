"""Fits GenSE's T5 to write and to judge at once, and chooses the step by both."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from tercet.models.generators import checkpoint
from tercet.models.generators.layout import Layout
from tercet.models.t5 import judge as judges
from tercet.models.t5.examples import Examples, Feed
from tercet.models.t5.judge import Judge
from tercet.models.t5.wording import Question
from tercet.models.training.choosing import Choice
from tercet.models.training.fit_generator import IGNORED, Encoded
from tercet.models.training.loop import OPTIMIZERS, LogRow, Setting, Step, train
from tercet.models.training.phase import Hyperparameters, Optimizer

METRIC = "validation accuracy - 10 perplexity"


class Gense(NamedTuple):
    """A model that is being fitted, with how it is asked and what it is asked."""

    model: Any
    tokenizer: Any
    layout: Layout
    question: Question

    def examples(self, rows: pa.Table) -> Examples:
        """The examples that these pairs give."""
        return Examples(self.tokenizer, self.layout, self.question, rows)


def opened(init: Path, question: Question) -> Gense:
    """The model that fitting starts from. Raises ValueError where it, or a template, does not fit.

    question: its `max_length` bounds the tokens of a prompt, and of an answer, too.
    """
    layout = Layout(form="t5", max_length=question.max_length, follows_prompts=True)
    model = judges.load_t5(init)
    found = Gense(model, checkpoint.load_tokenizer(init), layout, question)
    # Raises where a template leaves no room, before anything is trained.
    for true in (True, False):
        row = pa.table({"anchor": ["a"], "text": ["a"], "true": [true]})
        found.examples(row).written([0])
        found.examples(row).judged([0])
    return found


def fit(
    gense: Gense,
    rows: pa.Table,
    hyper: Hyperparameters,
    setting: Setting,
    optimizer: Optimizer,
) -> list[LogRow]:
    """Fits the model in place, from the last checkpoint in the directory if there is one.

    rows: row_id (uint64, distinct), anchor, text, true. A batch's rows are examples, two of each
    pair. Raises ValueError as `loop.train` does.
    """
    examples = gense.examples(rows.sort_by("row_id"))
    feed = Feed(examples, hyper.batch_size, setting.seed)
    step, optimizing = objective_of(gense.model), OPTIMIZERS[optimizer]
    return train(gense.model, feed, step, hyper, setting, optimizing=optimizing)


def objective_of(model: Any) -> Step:
    """The mean cross-entropy of the tokens of both halves together, their ends included.

    Each half passes by itself, since questions are longer than prompts.
    """

    def objective(batch: dict[str, Encoded]) -> tuple[Tensor, dict[str, Tensor]]:
        halves = {name: _losses(model, batch[name]) for name in ("written", "judged")}
        losses, tokens = (torch.stack(column) for column in zip(*halves.values(), strict=True))
        terms = {name: (one / count).detach() for name, (one, count) in halves.items()}
        return losses.sum() / tokens.sum(), terms

    return objective


def choice(gense: Gense, held_out: pa.Table, every: int, batch_size: int) -> Choice:
    """Measures 100 · accuracy - 10 · perplexity (GenSE, section 3.1); nothing is drawn.

    Perplexity is that of the examples that write, alone. A model whose weights are NaN or infinite
    has no figure. held_out: anchor, text, true; at least one row.
    """
    true = held_out["true"].to_numpy(zero_copy_only=False)

    def measure(model: Any) -> float | None:
        one = gense._replace(model=model.eval())
        says = judged(one, held_out, batch_size) > 0
        if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
            return None
        value = 100.0 * float(np.mean(says == true)) - 10.0 * perplexity(one, held_out, batch_size)
        return value if math.isfinite(value) else None

    return Choice(every, METRIC, measure)


def judged(gense: Gense, rows: pa.Table, batch_size: int) -> npt.NDArray[np.float64]:
    """log P(true) / P(false) of each pair, before calibration; (rows,)."""
    judge = Judge(gense.model.eval(), gense.tokenizer, gense.question)
    return judges.logits(judge, rows["anchor"].to_pylist(), rows["text"].to_pylist(), batch_size)


def perplexity(gense: Gense, rows: pa.Table, batch_size: int) -> float:
    """e to the mean cross-entropy of the tokens of each row's text, its end included."""
    examples, model = gense.examples(rows), gense.model.eval()
    lengths = np.array([len(text) for text in rows["text"].to_pylist()])
    order = np.argsort(lengths, kind="stable").tolist()
    total, tokens = 0.0, 0
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            batch = examples.written(order[start : start + batch_size])
            on = {name: tensor.to(model.device) for name, tensor in batch.items()}
            loss, count = _losses(model, on)
            total, tokens = total + float(loss), tokens + int(count)
    mean = total / tokens
    return math.exp(mean) if mean < 700 else math.inf


def _losses(model: Any, batch: Encoded) -> tuple[Tensor, Tensor]:
    """The cross-entropy summed over the labels, and how many there are."""
    labels = batch["labels"]
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels),
        use_cache=False,
    ).logits.float()
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return loss, (labels != IGNORED).sum()
