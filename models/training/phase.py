"""The data of a training phase: its hyperparameters, and the rows of its parts. No torch here.

Positives may be drawn anew in every epoch (Generate-CSE's random selection): the sentence with its
words shuffled, with some deleted or repeated, or a text generated from it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.config import Config
from tercet.models.encoders.settings import Side
from tercet.models.seeding import Ids
from tercet.models.text.word_noise import (
    SHORT,
    cut,
    in_another_order,
    repeated,
    repeated_few,
    sentences_of,
    shuffled,
    words_of,
)

if TYPE_CHECKING:
    from torch import nn

    from tercet.models.encoders.settings import PoolingMode

OPERATIONS = ("word_shuffle", "cutoff", "word_repetition", "generated")
# Where no operation fits a sentence, the sentence itself is its positive.
UNCHANGED = "none"


@dataclass(frozen=True)
class Drawing:
    """How positives are drawn.

    shares: weight of each of `OPERATIONS`, >= 0. A sentence draws among the operations that fit it:
        word_shuffle needs two different words, cutoff more than three words, generated a
        generation.
    generated: row_id, candidate_id (uint64) and text, sorted by both ids.
    """

    shares: Mapping[str, float]
    generated: pa.Table

    def positives(self, ids: Ids, texts: Sequence[str], seed: int, epoch: int) -> pa.Table:
        """A row for each text, in order: operation, text, candidate_id (null unless `generated`).

        A row depends only on seed, id, epoch and its text.
        """
        split = [text.split() for text in texts]
        first, last = self._places(ids)
        fits = np.array(
            [
                [len(set(words)) > 1 for words in split],
                [len(words) > SHORT for words in split],
                [len(words) > 0 for words in split],
                (last > first).tolist(),
            ],
            dtype=np.float64,
        ).reshape(len(OPERATIONS), len(texts))
        weights = np.cumsum(fits * np.array([[self.shares[name]] for name in OPERATIONS]), axis=0)
        total = weights[-1]
        drawn = seeding.uniforms(seed, "operation", ids, epoch) * total
        number = np.where(total > 0, (drawn >= weights).sum(axis=0), len(OPERATIONS))
        positives: list[str] = list(texts)
        for place, name in enumerate(OPERATIONS[:-1]):
            rows = np.flatnonzero(number == place).tolist()
            sources = [split[row] for row in rows]
            changed = _changed(name, ids[rows], sources, seed, epoch)
            for row, words in zip(rows, changed, strict=True):
                positives[row] = " ".join(words)
        of_candidates = number == len(OPERATIONS) - 1
        several = np.maximum(last - first, 1)
        candidate = first + seeding.below(seed, "generation", ids, several, epoch)
        candidates = self.generated.take(pa.array(candidate[of_candidates]))
        rows = np.flatnonzero(of_candidates).tolist()
        for row, text in zip(rows, candidates["text"].to_pylist(), strict=True):
            positives[row] = text
        of_row: list[int | None] = [None] * len(texts)
        for row, one in zip(rows, candidates["candidate_id"].to_pylist(), strict=True):
            of_row[row] = one
        names = np.array([*OPERATIONS, UNCHANGED], dtype=object)[number]
        return pa.table(
            {
                "operation": pa.array(names.tolist(), pa.string()),
                "text": pa.array(positives, pa.string()),
                "candidate_id": pa.array(of_row, pa.uint64()),
            }
        )

    def _places(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        """The place of each row's first generation, and the place after its last."""
        rows = self.generated["row_id"].to_numpy()
        return np.searchsorted(rows, ids, side="left"), np.searchsorted(rows, ids, side="right")


def _changed(
    name: str, ids: Ids, sources: Sequence[Sequence[str]], seed: int, epoch: int
) -> list[list[str]]:
    words = words_of(ids, sources)
    if name == "cutoff":
        return sentences_of(cut(words, seed, epoch))
    if name == "word_repetition":
        return sentences_of(repeated(words, seed, epoch))
    orders = sentences_of(shuffled(words, seed, epoch))
    return [in_another_order(new, source) for new, source in zip(orders, sources, strict=True)]


REPETITIONS = {"few": repeated_few, "many": repeated}
Optimizer: TypeAlias = Literal["adamw", "adafactor"]
Schedule: TypeAlias = Literal["linear", "cosine", "constant"]


class Hyperparameters(Config):
    """Hyperparameters of a phase, whatever its losses."""

    name: str = Field(default="triplets", min_length=1, max_length=64)
    batch_size: int = Field(default=64, ge=2, le=65_536, description="Rows a step")
    learning_rate: float = Field(
        default=2e-5, gt=0.0, le=1.0, description="The highest, after the warm-up."
    )
    epochs: float = Field(default=1.0, gt=0.0, le=1000.0, description="Passes over the rows")
    max_steps: int | None = Field(default=None, ge=1, description="Instead of epochs.")
    warmup: float = Field(
        default=0.1, ge=0.0, le=1.0, description="Share of the steps with a rising learning rate."
    )
    warmup_steps: int | None = Field(
        default=None, ge=0, description="Steps with a rising learning rate, instead of warmup."
    )
    lr_schedule: Schedule = Field(
        default="linear",
        description="After the warm-up the learning rate falls to 0 along a line or half a cosine, "
        "or is constant.",
    )
    weight_decay: float = Field(default=0.0, ge=0.0, le=1.0, description="Weight decay of AdamW.")
    epsilon: float = Field(
        default=1e-8, ge=1e-30, le=1.0, description="AdamW's, added to the gradients' size."
    )
    max_length: int = Field(
        default=64, ge=4, le=8192, description="Longest input in training, in tokens."
    )
    frozen_layers: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many of the lowest layers are frozen, along with the token embeddings, "
        "which makes steps cheaper; 0: none.",
    )
    weight_interpolation: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="How much of the weights that the phase starts from is mixed into those that "
        "it ends with; 0: none.",
    )
    word_repetition: Literal["few", "many"] | None = Field(
        default=None,
        description="Words of the anchor that are said twice, drawn afresh each epoch. few: one in "
        "every second anchor, more only in those of sixty words or more (GCSE's code); many: 1 to "
        "0.3 of them in each (VAEGPT-Sim, section 3); null: none.",
    )

    def steps(self, epoch: int) -> int:
        """Steps of the phase, for this many steps an epoch."""
        if self.max_steps is not None:
            return self.max_steps
        return max(1, math.ceil(self.epochs * epoch))

    def warmup_of(self, steps: int) -> int:
        """How many of the phase's steps have a rising learning rate."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return math.ceil(self.warmup * steps)


@dataclass(frozen=True)
class Teacher:
    """A frozen encoder whose cosines guide the student.

    pooling, prompt: None: the directory's own.
    """

    directory: Path
    pooling: "PoolingMode | None" = None
    prompt: str | None = None


@dataclass(frozen=True)
class PartRows:
    """One part of a phase: rows, and the loss that they train.

    name: unique within the phase; it seeds the part's draws if there are several parts.
    rows: row_id (uint64, distinct), the loss's columns of text and label, and optionally group
        (uint64): one row of each group is drawn each epoch.
    loss, params: the loss's name in the registry, and its hyperparameters.
    weight: factor of the part's loss in the batch's loss.
    share: of each batch, relative to the other parts' shares; None: relative to numbers of rows.
    slots: directories of the models that the loss reads.
    drawing: how positives are drawn from anchors in each epoch; None: the rows have positives.
    teacher: its cosine of anchor and negative, as they stand in the batch, is the loss's label;
        None: the rows have the label.
    sides: which of the encoder's prompts (query or document) precedes a column's texts, by column;
        other columns get the default prompt.
    """

    name: str
    rows: pa.Table
    loss: str
    params: Config
    weight: float = 1.0
    share: float | None = None
    slots: Mapping[str, Path] = field(default_factory=dict)
    drawing: Drawing | None = None
    teacher: Teacher | None = None
    sides: Mapping[str, Side] = field(default_factory=dict)

    def count(self) -> int:
        """Rows of an epoch; a group counts once."""
        if "group" not in self.rows.column_names:
            return int(self.rows.num_rows)
        return len(self.rows["group"].unique())


def part_sizes(
    batch_size: int, rows: Sequence[int], shares: Sequence[float | None]
) -> tuple[int, ...]:
    """The number of each part's rows in a full batch; they add up to `batch_size`.

    rows: of each part, >= 1. shares: of each part, or all None: then proportional to the rows.
    Each of several parts has at least two rows in a batch, since a single row has no in-batch
    negative. Raises ValueError if the batch is too small for that, or only some shares are given.
    """
    if None in shares and any(share is not None for share in shares):
        raise ValueError("only some parts of the phase have a share: give each a share, or none")
    least = 2 if len(rows) > 1 else 1
    if batch_size < least * len(rows):
        raise ValueError(
            f"batch_size: {batch_size} is too small for {len(rows)} parts of at least two rows "
            f"each: raise it to {least * len(rows)} or more"
        )
    weights = [float(n if share is None else share) for n, share in zip(rows, shares, strict=True)]
    exact = [batch_size * weight / sum(weights) for weight in weights]
    sizes = [max(least, math.floor(value)) for value in exact]
    # Rounding: rows go to the parts furthest below their exact size, or are taken from parts above
    # it.
    while sum(sizes) != batch_size:
        step = 1 if sum(sizes) < batch_size else -1
        can = [i for i, size in enumerate(sizes) if step > 0 or size > least]
        furthest = max(can, key=lambda i: (step * (exact[i] - sizes[i]), -i))
        sizes[furthest] += step
    return tuple(sizes)


def epoch_steps(sizes: Sequence[int], rows: Sequence[int]) -> int:
    """Steps of an epoch: as many as the longest part has; shorter parts start over."""
    return max(math.ceil(n / size) for n, size in zip(rows, sizes, strict=True))


@dataclass(frozen=True)
class Trained:
    """A phase's results besides the encoder's weights.

    log: step, epoch, loss, terms (by name), learning_rate, rows_per_second, dev_metric, dev_value,
        chosen. With several parts a term is called `PART.term`, and a part's loss `PART.loss`.
    draws: epoch (int32), part, group, row_id (uint64): which row of each group was drawn; None if
        no part has groups. `epoch` counts the part's own rounds: a shorter part starts over within
        an epoch and draws anew.
    kept: the modules of losses that are saved beside the encoder, by name.
    drawn: the positives of parts with a `drawing`, in pieces: epoch (int32), part, row_id (uint64),
        operation, text, candidate_id (uint64).
    """

    log: list[dict[str, Any]]
    draws: pa.Table | None
    kept: Mapping[str, "nn.Module"] = field(default_factory=dict)
    drawn: Iterable[pa.Table] = ()
