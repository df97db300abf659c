"""Fits a generator to pairs of source and target, in the layout of its later prompts.

The caller gives the model and its objective: plain objectives are below, VAEGPT's is in
`models/vaegpt/fitting.py`. The best step is chosen by the ROUGE of greedy answers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn
from transformers import AutoConfig, T5ForConditionalGeneration

from tercet.models.generators import layout as layouts
from tercet.models.generators.layout import Layout
from tercet.models.measures.rouge import rouge, words
from tercet.models.pretrained import causal_model, loaded, network
from tercet.models.training import batches as batching
from tercet.models.training.loop import OPTIMIZERS, Batch, Choice, LogRow, Setting, train
from tercet.models.training.phase import Hyperparameters, Optimizer

METRIC = "rouge validation average"
# Tokens by which an answer may be longer than the longest target.
_SPARE_TOKENS = 8
# Lengths are padded to a multiple of this, since a CPU compiles bf16 kernels for every shape.
_MULTIPLE = 8
IGNORED = -100

Encoded: TypeAlias = dict[str, Tensor]
# The loss of a batch, a scalar, and detached scalars by name for the log.
Objective: TypeAlias = Callable[[Encoded], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class Fitted:
    """A model that is being fitted, with its tokenizer and layout.

    model: of transformers, with `generate`.
    """

    model: Any
    tokenizer: Any
    layout: Layout
    objective: Objective


def fit(
    fitted: Fitted,
    rows: pa.Table,
    hyper: Hyperparameters,
    setting: Setting,
    optimizer: Optimizer,
) -> list[LogRow]:
    """Fits the model in place, from the last checkpoint in the directory if there is one.

    rows: row_id (uint64, distinct), source, target. Raises ValueError as `loop.train` does, and
    if layout and tokenizer do not fit.
    """
    feed = Feed(fitted.tokenizer, fitted.layout, rows, hyper.batch_size, setting.seed)
    optimizing = OPTIMIZERS[optimizer]
    return train(fitted.model, feed, fitted.objective, hyper, setting, optimizing=optimizing)


class Feed:
    """Batches of pairs of similar length, reshuffled each round, padded on the right.

    A batch has input_ids, attention_mask and labels, each (rows, tokens); target_ids and
    target_mask (rows, tokens), with the closing <eos>; and start (rows,), the target's place in the
    input. Labels are the decoder's for T5; for a causal form all but the target is ignored.
    """

    def __init__(
        self, tokenizer: Any, layout: Layout, rows: pa.Table, batch_size: int, seed: int
    ) -> None:
        rows = rows.sort_by("row_id").combine_chunks()
        self._pad, self._layout = int(tokenizer.pad_token_id), layout
        self._prompts = layouts.prompts(tokenizer, layout, rows["source"].to_pylist())
        targets = rows["target"].to_pylist()
        self._targets = layouts.targets(tokenizer, layout, targets, self._prompts)
        texts = ["source", "target"]
        self._windows = batching.LengthWindows(rows, texts, batch_size, seed, "pairs")
        self._length = -(-int(rows.num_rows) // batch_size)
        self._round: tuple[int, list[list[int]]] = (-1, [])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: int) -> Batch:
        number, place = divmod(step, self._length)
        if self._round[0] != number:
            self._round = (number, self._windows.round(number))
        rows = self._round[1][place]
        prompts = [self._prompts[row] for row in rows]
        targets = [self._targets[row] for row in rows]
        return Batch(len(rows), self._encoded(prompts, targets))

    def _encoded(self, prompts: list[list[int]], targets: list[list[int]]) -> Encoded:
        target_ids, _ = padded(targets, self._pad)
        # Not the mask of `padded`, since padding may be the same token as <eos>.
        lengths = torch.tensor([len(ids) for ids in targets])
        target_features = {
            "target_ids": target_ids,
            "target_mask": torch.arange(target_ids.shape[1]) < lengths[:, None],
            "start": torch.tensor([len(ids) for ids in prompts]),
        }
        inputs = prompts
        if self._layout.form == "t5":
            labels, _ = padded(targets, IGNORED)
        else:
            pairs = list(zip(prompts, targets, strict=True))
            labels, _ = padded([[IGNORED] * len(p) + t for p, t in pairs], IGNORED)
            inputs = [prompt + target for prompt, target in pairs]
        ids, mask = padded(inputs, self._pad)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, **target_features}


def padded(rows: Sequence[Sequence[int]], value: int, left: bool = False) -> tuple[Tensor, Tensor]:
    """The rows as one (rows, tokens) tensor, and its mask: 1 for tokens, 0 for padding."""
    longest = -(-max(map(len, rows)) // _MULTIPLE) * _MULTIPLE
    ids = torch.full((len(rows), longest), value)
    mask = torch.zeros(len(rows), longest, dtype=torch.int64)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(len(row))
        ids[number, place] = torch.tensor(row)
        mask[number, place] = 1
    return ids, mask


def choice_by_rouge(fitted: Fitted, held_out: pa.Table, every: int, batch_size: int) -> Choice:
    """Measures the average ROUGE of greedy answers in percent.

    A model with NaN or infinite weights has no figure, although it still gives answers.
    held_out: source and target, at least one row.
    """
    sources, targets = held_out["source"].to_pylist(), held_out["target"].to_pylist()
    references = [words(text) for text in targets]

    def measure(model: Any) -> float | None:
        if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
            return None
        answers = greedy(fitted, sources, targets, batch_size)
        scores = [rouge(words(a), b).average for a, b in zip(answers, references, strict=True)]
        return 100.0 * float(np.mean(scores))

    return Choice(every, METRIC, measure)


def greedy(
    fitted: Fitted, sources: Sequence[str], targets: Sequence[str], batch_size: int
) -> list[str]:
    """Each source's greedy answer: the likeliest token at each step.

    targets: the longest one plus a few tokens limits an answer's length.
    """
    model, tokenizer, layout = fitted.model.eval(), fitted.tokenizer, fitted.layout
    prompts = layouts.prompts(tokenizer, layout, sources)
    longest = max(map(len, layouts.targets(tokenizer, layout, targets, prompts)))
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    answers = [""] * len(prompts)
    with noiseless(model), torch.no_grad():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            ids, mask = padded([prompts[row] for row in chosen], tokenizer.pad_token_id, left=True)
            generated = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                max_new_tokens=longest + _SPARE_TOKENS,
                do_sample=False,
                num_beams=1,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=layouts.end_token(tokenizer),
            )
            skipped = 1 if layout.form == "t5" else ids.shape[1]
            texts = tokenizer.batch_decode(generated[:, skipped:], skip_special_tokens=True)
            for row, text in zip(chosen, texts, strict=True):
                answers[row] = text.strip()
    return answers


@contextmanager
def noiseless(model: Any) -> Iterator[None]:
    """Switches off the noise of a model that adds its own."""
    was = getattr(model.config, "noise", None)
    if was is None:
        yield
        return
    model.config.noise = False
    try:
        yield
    finally:
        model.config.noise = was


def load_causal(directory: Path) -> tuple[Any, Objective]:
    """A causal language model and its cross-entropy. Raises ValueError for another form."""
    model = causal_model(directory)
    return model, cross_entropy_of(model)


def load_t5(directory: Path) -> tuple[Any, Objective]:
    """A T5 and its cross-entropy. Raises ValueError for another form."""
    kind = loaded(AutoConfig, directory).model_type
    if kind != "t5":
        raise ValueError(
            f"The form t5 starts from a T5, and {directory} is a {kind}: name another init or form"
        )
    model = network(T5ForConditionalGeneration, directory, torch.float32)
    return model, cross_entropy_of(model)


def cross_entropy_of(model: Any) -> Objective:
    """The mean cross-entropy over the target's tokens, <eos> included."""
    # A decoder's logits predict the label at their own place, a causal model's the next one.
    ahead = 0 if model.config.is_encoder_decoder else 1

    def objective(batch: Encoded) -> tuple[Tensor, dict[str, Tensor]]:
        labels = batch["labels"]
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        if not ahead:
            inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
        logits = model(**inputs, use_cache=False).logits.float()
        loss = nn.functional.cross_entropy(
            logits[:, : logits.shape[1] - ahead].flatten(0, 1),
            labels[:, ahead:].flatten(),
            ignore_index=IGNORED,
        )
        return loss, {"cross_entropy": loss.detach()}

    return objective
