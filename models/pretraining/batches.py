"""Batches for training language models: of similar numbers of tokens, in few shapes, with masked or
shifted tokens and their labels.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tercet.models import seeding
from tercet.models.pretraining.forms import Form
from tercet.models.training.loop import Batch

Ints: TypeAlias = npt.NDArray[np.int64]

# Label of a position without loss.
IGNORED = -100
# BERT's shares of the chosen tokens that are masked and that are replaced; the rest stay.
_MASKED, _REPLACED = 0.8, 0.1
# T5: the mean length of a masked span, in tokens.
SPAN = 3.0


@dataclass(frozen=True)
class Vocabulary:
    """The ids of a tokenizer that the noise functions need.

    size: number of entries. special: ids that are never masked. padding: id to pad with. mask, end:
    ids, -1 if the form has none. sentinels: ids of T5's sentinels, <extra_id_0> first.
    """

    size: int
    special: Ints
    padding: int
    mask: int = -1
    end: int = -1
    sentinels: tuple[int, ...] = ()


def masked(
    ids: Ints, share: float, most: int, vocabulary: Vocabulary, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """BERT's noise: the corrupted ids (rows, width), the places to predict, and the original ids.

    Each row has `share` of its tokens masked, at least one and at most `most`. Places and answers
    are (rows, most), padded with 0 and IGNORED, so that all batches of a width have the same
    shapes.

    ids: (rows, width), padded.
    """
    maskable = ~np.isin(ids, vocabulary.special)
    counts = np.clip(np.rint(share * maskable.sum(1)).astype(np.int64), 1, most)
    counts = np.minimum(counts, maskable.sum(1))
    order = np.argsort(np.where(maskable, rng.random(ids.shape), 2.0), axis=1, kind="stable")
    used = np.arange(most) < counts[:, None]
    places = np.where(used, order[:, :most], 0)
    answers = np.where(used, np.take_along_axis(ids, places, 1), IGNORED)
    fate = rng.random(places.shape)
    others = rng.integers(0, vocabulary.size, places.shape)
    replaced = np.where(fate < _MASKED + _REPLACED, others, np.take_along_axis(ids, places, 1))
    corrupted = np.where(fate < _MASKED, vocabulary.mask, replaced)
    noised = ids.copy()
    rows = np.broadcast_to(np.arange(len(ids))[:, None], places.shape)
    noised[rows[used], places[used]] = corrupted[used]
    return noised, places, answers


def most_masked(width: int, share: float) -> int:
    """The maximum number of masked tokens in a row of this width."""
    return max(1, round(share * width))


def shifted(ids: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """GPT-2's task: the ids without the last column, and the next id of each as its label."""
    inside = np.arange(1, ids.shape[1]) < lengths[:, None]
    return ids[:, :-1], np.where(inside, ids[:, 1:], IGNORED)


def spans(
    ids: Ints,
    lengths: Ints,
    share: float,
    whole: bool,
    width: int,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, Ints]:
    """T5's noise: the encoder's input (rows, n), its lengths (rows,), and labels (rows, width).

    `share` of each row's tokens are in masked spans of three tokens on average, at random places.
    The encoder reads a sentinel in place of each span, and the decoder writes each sentinel
    followed by the span's tokens. whole: the decoder writes the whole text instead; all spans then
    have the last sentinel, which marks this task. Input and labels end with the end-of-text token.

    ids: (rows, n), padded, with room for one more token in each row.
    """
    most = len(vocabulary.sentinels) - 1
    end = vocabulary.end
    read = np.full(ids.shape, vocabulary.padding, dtype=np.int64)
    written = np.full((len(ids), width), IGNORED, dtype=np.int64)
    sizes = np.empty(len(ids), dtype=np.int64)
    for row, length in enumerate(lengths.tolist()):
        tokens, starts = ids[row, :length], _starts(length, share, most, rng)
        sees, writes, before = [], [], 0
        for number, (start, stop) in enumerate(starts):
            sentinel = vocabulary.sentinels[-1 if whole else number]
            sees += [*tokens[before:start], sentinel]
            writes += [sentinel, *tokens[start:stop]]
            before = stop
        sees += [*tokens[before:], end]
        answer = [*(tokens if whole else writes), end][:width]
        read[row, : len(sees)] = sees
        written[row, : len(answer)] = answer
        sizes[row] = len(sees)
    return read, sizes, written


def longest_answer(width: int, share: float, whole: bool) -> int:
    """The maximum length of labels of `spans` for a text of fewer than `width` ids."""
    if whole:
        return width
    hidden = max(1, round(share * width))
    return hidden + max(1, round(hidden / SPAN)) + 1


def _starts(
    length: int, share: float, most: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Random spans as (start, stop), in order and not adjacent, if there is room."""
    hidden = min(max(1, round(share * length)), length)
    count = min(max(1, round(hidden / SPAN)), most, max(1, length - hidden))
    sizes = _divided(hidden, count, rng, least=1)
    gaps = _divided(length - hidden - (count - 1), count + 1, rng, least=0)
    spans, place = [], 0
    for number, size in enumerate(sizes):
        place += gaps[number] + (1 if number else 0)
        spans.append((place, place + size))
        place += size
    return spans


def _divided(total: int, parts: int, rng: np.random.Generator, least: int) -> list[int]:
    """A random division of the total into parts of at least `least`, all equally likely."""
    free = max(0, total - least * parts)
    cuts = np.sort(rng.choice(free + parts - 1, parts - 1, replace=False)).tolist()
    edges = [-1, *cuts, free + parts - 1]
    return [b - a - 1 + least for a, b in pairwise(edges)]


_DONE = "texts.json"


@dataclass(frozen=True)
class Texts:
    """The ids of many texts, concatenated.

    ids: (tokens,). ends: (texts,), the end of each text in `ids`.
    """

    ids: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def lengths(self) -> npt.NDArray[np.int32]:
        """Number of tokens of each text, (texts,)."""
        return np.diff(self.ends, prepend=0).astype(np.int32)

    def padded(self, rows: Ints, width: int, padding: int) -> tuple[Ints, Ints]:
        """The ids of these texts, (rows, width), and their lengths, at most `width`."""
        ends = np.asarray(self.ends[rows])
        starts = np.where(rows > 0, self.ends[rows - 1], 0)
        lengths = ends - starts
        places = starts[:, None] + np.arange(width)
        inside = np.arange(width) < lengths[:, None]
        tokens = self.ids[np.minimum(places, len(self.ids) - 1)].astype(np.int64)
        return np.where(inside, tokens, padding), lengths


def tokenised(
    folder: Path, batches: Iterable[list[str]], tokenizer: Any, form: Form, max_length: int
) -> Texts:
    """The tokenised texts in the folder; tokenises and writes them unless they are complete.

    Form masked adds the tokenizer's special tokens, causal the tokens that begin and end a text; t5
    adds none and leaves room for one. Longer texts are cut; texts without tokens are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / _DONE
    kind = np.uint16 if len(tokenizer) <= np.iinfo(np.uint16).max else np.uint32
    if not done.is_file():
        total = rows = 0
        with (folder / "ids.bin").open("wb") as ids, (folder / "ends.bin").open("wb") as ends:
            for texts in batches:
                encoded = [row for row in _encoded(texts, tokenizer, form, max_length) if row]
                lengths = np.array([len(row) for row in encoded], dtype=np.int64)
                ids.write(np.array([i for row in encoded for i in row], dtype=kind).tobytes())
                ends.write((total + np.cumsum(lengths)).astype(np.int64).tobytes())
                total, rows = total + int(lengths.sum()), rows + len(encoded)
        draft = done.with_suffix(".writing")
        draft.write_text(json.dumps({"texts": rows, "tokens": total}), encoding="utf-8")
        os.replace(draft, done)  # noqa: PTH105
    if json.loads(done.read_text(encoding="utf-8"))["texts"] == 0:
        return Texts(np.empty(0, kind), np.empty(0, np.int64))
    return Texts(
        np.memmap(folder / "ids.bin", dtype=kind, mode="r"),
        np.memmap(folder / "ends.bin", dtype=np.int64, mode="r"),
    )


def _encoded(texts: list[str], tokenizer: Any, form: Form, max_length: int) -> list[list[int]]:
    options = {"truncation": True, "return_attention_mask": False}
    if form == "masked":
        rows = tokenizer(texts, max_length=max_length, **options)["input_ids"]
        return [row for row in rows if len(row) > tokenizer.num_special_tokens_to_add()]
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    end = [tokenizer.eos_token_id]
    if form == "t5":
        begin, end, max_length = [], [], max_length - 1
    room = max_length - len(begin) - len(end)
    rows = tokenizer(texts, max_length=room, add_special_tokens=False, **options)["input_ids"]
    return [[*begin, *row, *end] for row in rows if row]


Inputs = Mapping[str, Tensor]

# Widths are multiples of 16, and only some of them above 64: bf16 on a CPU prepares new kernels for
# every new shape.
_STEP = 16
# Additional input ids of a text: GPT-2 reads all but the last, T5's noise may add one.
_EXTRA: Mapping[Form, int] = {"masked": 0, "causal": -1, "t5": 1}


@dataclass(frozen=True)
class Task:
    """The training task. masked: share of masked tokens. infill: share of the batches in which t5
    writes the whole text. batch_tokens: tokens per batch, with padding."""

    form: Form
    masked: float
    infill: float
    max_length: int
    batch_tokens: int


def widths(longest: int) -> tuple[int, ...]:
    """The widths of batches; the last one fits the longest text."""
    steps, step = [_STEP], _STEP
    while steps[-1] < longest:
        step = max(_STEP, 1 << (steps[-1].bit_length() - 2))
        steps.append(steps[-1] + step)
    return tuple(steps)


class TextBatches:
    """The batches of all epochs; each epoch has every text once, in another order.

    The texts of a width are shuffled and cut into batches of `batch_tokens`. The remainder goes to
    the next width, so an epoch has only one incomplete batch, always of the same shape.
    """

    def __init__(self, texts: Texts, task: Task, vocabulary: Vocabulary, seed: int) -> None:
        self._texts, self._task, self._vocabulary, self._seed = texts, task, vocabulary, seed
        lengths = texts.lengths()
        edges = widths(task.max_length)
        self._width_of = np.searchsorted(edges, lengths + _EXTRA[task.form]).astype(np.int8)
        self.tokens = int(lengths.sum(dtype=np.int64))
        self._cuts = _cuts(np.bincount(self._width_of, minlength=len(edges)), edges, task)
        self._epoch: tuple[int, Ints, Ints] = (-1, np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, step: int) -> Batch:
        epoch, place = divmod(step, len(self))
        rows, order = self._order(epoch)
        start, stop, width = self._cuts[int(order[place])]
        inputs = self._inputs(np.sort(rows[start:stop]), width, step)
        return Batch(stop - start, inputs)

    def _order(self, epoch: int) -> tuple[Ints, Ints]:
        """Texts by width, shuffled within each, and the order of the batches."""
        if self._epoch[0] != epoch:
            rng = self._rng("order", epoch)
            shuffled = rng.permutation(len(self._texts))
            rows = shuffled[np.argsort(self._width_of[shuffled], kind="stable")]
            self._epoch = (epoch, rows, rng.permutation(len(self)))
        return self._epoch[1], self._epoch[2]

    def _rng(self, purpose: str, number: int) -> np.random.Generator:
        drawn = seeding.draws(self._seed, purpose, np.array([number], dtype=np.uint64))
        return np.random.Generator(np.random.Philox(key=int(drawn[0])))

    def _inputs(self, rows: Ints, width: int, step: int) -> Inputs:
        """The inputs of a step, with noise drawn for this step."""
        task, vocabulary, rng = self._task, self._vocabulary, self._rng("noise", step)
        room = width + (task.form == "causal")
        ids, lengths = self._texts.padded(rows, room, vocabulary.padding)
        if task.form == "masked":
            most = most_masked(width, task.masked)
            ids, places, answers = masked(ids, task.masked, most, vocabulary, rng)
            return _tensors(ids=ids, lengths=lengths, places=places, answers=answers)
        if task.form == "causal":
            inputs, answers = shifted(ids, lengths)
            return _tensors(ids=inputs, lengths=lengths - 1, answers=answers)
        whole = bool(rng.random() < task.infill)
        longest = longest_answer(width, task.masked, whole)
        longest = -(-longest // _STEP) * _STEP
        ids, lengths, answers = spans(ids, lengths, task.masked, whole, longest, vocabulary, rng)
        return _tensors(ids=ids, lengths=lengths, answers=answers)


def _tensors(**arrays: Ints) -> Inputs:
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def _cuts(counts: Ints, edges: Sequence[int], task: Task) -> list[tuple[int, int, int]]:
    """Start, stop and width of each batch, in the order of texts by width."""
    cuts: list[tuple[int, int, int]] = []
    start = stop = 0
    for width, count in zip(edges, counts.tolist(), strict=True):
        size = max(1, task.batch_tokens // width)
        stop += count
        while stop - start >= size:
            cuts.append((start, start + size, width))
            start += size
    if stop > start:
        # The last batch has the width of its longest text.
        width = edges[int(np.flatnonzero(counts)[-1])]
        cuts.append((start, stop, width))
    return cuts
