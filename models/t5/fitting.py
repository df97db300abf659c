"""Fits GenSE's T5 to write and judge together, and selects the best step by both."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from tercet.models import pretrained
from tercet.models.generators import layout as layouts
from tercet.models.generators.layout import Layout
from tercet.models.t5 import judge as judges
from tercet.models.t5 import wording
from tercet.models.t5.judge import Judge
from tercet.models.t5.wording import Question
from tercet.models.training import batches as batching
from tercet.models.training.fit_generator import IGNORED, Encoded, padded
from tercet.models.training.loop import OPTIMIZERS, Batch, Choice, LogRow, Setting, Step, train
from tercet.models.training.phase import Hyperparameters, Optimizer


class Examples:
    """Encodes labelled pairs as examples of writing and of judging.

    Each pair gives one example of each (GenSE, section 2.1): its sentence in the template of its
    class (entailment or contradiction) with the second text as the target; and the question about
    both texts with the answer as the target.

    rows: row_id (uint64, distinct), anchor, text, true (whether the text follows). `written` and
    `judged` return input_ids and attention_mask, (rows, tokens), and labels, (rows, tokens of the
    decoder), padded with IGNORED.
    """

    def __init__(self, tokenizer: Any, layout: Layout, question: Question, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        self._tokenizer, self._layout, self._question = tokenizer, layout, question
        answers = wording.answers(tokenizer, question)
        self._answers = {True: answers.true, False: answers.false}
        self._around = {
            True: wording.around(question.templates["entailment"]),
            False: wording.around(question.templates["contradiction"]),
        }

    def written(self, rows: Sequence[int]) -> Encoded:
        """Examples of writing: the anchor in the template of its class, and the text."""
        anchors, texts, true = self._columns(rows)
        around = [self._around[one] for one in true]
        prompt_ids = layouts.prompts(self._tokenizer, self._layout, anchors, around)
        return self._encoded(
            prompt_ids, layouts.targets(self._tokenizer, self._layout, texts, prompt_ids)
        )

    def judged(self, rows: Sequence[int]) -> Encoded:
        """Examples of judging: the question about anchor and text, and the answer."""
        anchors, texts, true = self._columns(rows)
        question_ids = wording.questions(self._tokenizer, self._question, anchors, texts)
        batch = self._encoded(question_ids, [self._answers[one] for one in true])
        # Cut the padding to the longest answer.
        longest = max(map(len, self._answers.values()))
        return {**batch, "labels": batch["labels"][:, :longest]}

    def _columns(self, rows: Sequence[int]) -> tuple[list[str], list[str], list[bool]]:
        some = self.rows.take(pa.array(rows, pa.int64()))
        return some["anchor"].to_pylist(), some["text"].to_pylist(), some["true"].to_pylist()

    def _encoded(self, input_ids: list[list[int]], targets: list[list[int]]) -> Encoded:
        ids, mask = padded(input_ids, int(self._tokenizer.pad_token_id))
        labels, _ = padded(targets, IGNORED)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class Feed:
    """Batches with one half of writing and one of judging, each with rows of similar length.

    Each half has all rows once per round, in its own order. Texts are tokenised batch by batch, so
    memory does not grow with the corpus.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        self._examples = examples
        half = batch_size // 2
        self._halves = [
            batching.LengthWindows(examples.rows, ["anchor", "text"], half, seed, purpose)
            for purpose in ("written", "judged")
        ]
        self._length = -(-int(examples.rows.num_rows) // half)
        self._round: tuple[int, list[tuple[list[int], ...]]] = (-1, [])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: int) -> Batch:
        number, place = divmod(step, self._length)
        if self._round[0] != number:
            # The incomplete batch comes last, so that both halves always have the same size.
            rounds = (half.round(number) for half in self._halves)
            halves = [sorted(batches, key=len, reverse=True) for batches in rounds]
            self._round = (number, list(zip(*halves, strict=True)))
        written, judged = self._round[1][place]
        inputs = {
            "written": self._examples.written(written),
            "judged": self._examples.judged(judged),
        }
        return Batch(len(written) + len(judged), inputs)


METRIC = "validation accuracy - 10 perplexity"


class Gense(NamedTuple):
    """A model to fit, with its layout and its question."""

    model: Any
    tokenizer: Any
    layout: Layout
    question: Question

    def examples(self, rows: pa.Table) -> Examples:
        """The examples of these pairs."""
        return Examples(self.tokenizer, self.layout, self.question, rows)


def opened(init: Path, question: Question) -> Gense:
    """Loads the model to fit. Raises ValueError if the model or a template does not fit.

    question: its `max_length` also bounds the tokens of a prompt and of an answer.
    """
    layout = Layout(form="t5", max_length=question.max_length, follows_prompts=True)
    model = judges.load_t5(init)
    gense = Gense(model, pretrained.load_tokenizer(init), layout, question)
    # Raise before training if a template leaves no room.
    for true in (True, False):
        row = pa.table({"anchor": ["a"], "text": ["a"], "true": [true]})
        gense.examples(row).written([0])
        gense.examples(row).judged([0])
    return gense


def fit(
    gense: Gense,
    rows: pa.Table,
    hyper: Hyperparameters,
    setting: Setting,
    optimizer: Optimizer,
) -> list[LogRow]:
    """Fits the model in place, from the last checkpoint in the directory if there is one.

    rows: row_id (uint64, distinct), anchor, text, true; each pair gives two rows of a batch. Raises
    ValueError as `loop.train` does.
    """
    examples = gense.examples(rows.sort_by("row_id"))
    feed = Feed(examples, hyper.batch_size, setting.seed)
    step, optimizing = objective_of(gense.model), OPTIMIZERS[optimizer]
    return train(gense.model, feed, step, hyper, setting, optimizing=optimizing)


def objective_of(model: Any) -> Step:
    """The mean cross-entropy over the tokens of both halves, end tokens included.

    Each half has a separate forward pass, since questions are longer than prompts.
    """

    def objective(batch: dict[str, Encoded]) -> tuple[Tensor, dict[str, Tensor]]:
        halves = {name: _losses(model, batch[name]) for name in ("written", "judged")}
        losses, tokens = (torch.stack(column) for column in zip(*halves.values(), strict=True))
        terms = {name: (one / count).detach() for name, (one, count) in halves.items()}
        return losses.sum() / tokens.sum(), terms

    return objective


def choice(gense: Gense, held_out: pa.Table, every: int, batch_size: int) -> Choice:
    """The `Choice` by 100 · accuracy - 10 · perplexity (GenSE, section 3.1), without sampling.

    Perplexity is that of the writing examples. A model with weights that are not finite has no
    figure. held_out: anchor, text, true; at least one row.
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
    """Uncalibrated log P(true) / P(false) of each pair, (rows,)."""
    judge = Judge(gense.model.eval(), gense.tokenizer, gense.question)
    return judges.logits(judge, rows["anchor"].to_pylist(), rows["text"].to_pylist(), batch_size)


def perplexity(gense: Gense, rows: pa.Table, batch_size: int) -> float:
    """exp of the mean cross-entropy over the tokens of the rows' texts, end tokens included."""
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
    """The summed cross-entropy of the labels, and their number."""
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
