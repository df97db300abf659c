"""Which rows make a batch, and how a batch of rows becomes features: seeded by row and epoch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator

from tercet.models import seeding
from tercet.models.seeding import Ids

Indices = npt.NDArray[np.int64]

TEXT_COLUMNS = ("anchor", "positive", "negative")

# Rows are sorted by length inside windows of this many batches: little padding, still shuffled.
WINDOW = 20


def repeat_words(text: str, seed: int, row_id: int, epoch: int, rate: float = 0.3) -> str:
    """The text with some of its words said twice, a function of (seed, row, epoch).

    Of n words 1 to max(1, floor(rate * (n - 1))) are repeated in place (VAEGPT-Sim, section 3;
    GCSE's code does it to every anchor).
    """
    words = text.split()
    if not words:
        return text
    row = np.array([row_id], dtype=np.uint64)
    most = max(1, int(rate * (len(words) - 1)))
    count = 1 + int(seeding.below(seed, "repetition count", row, most, epoch)[0])
    counter = np.arange(len(words), dtype=np.uint64) + np.uint64(epoch << 32)
    order = np.argsort(seeding.draws(seed, "repetition", row.repeat(len(words)), counter))
    twice = set(order[:count].tolist())
    return " ".join(f"{word} {word}" if i in twice else word for i, word in enumerate(words))


class LengthWindows(DefaultBatchSampler):  # type: ignore[misc]
    """Batches of rows of like length, shuffled anew each epoch; no row is left out.

    Rows are shuffled, cut into windows of 20 batches, sorted by length inside a window, cut into
    batches, and the batches shuffled. A row whose text is already in a batch waits for the next
    one of its window, so that it is not its own negative; where none is left, it stays.
    """

    def __init__(self, rows: pa.Table, batch_size: int, seed: int, purpose: str) -> None:
        super().__init__(rows, batch_size=batch_size, drop_last=False, seed=seed)
        self._ids: Ids = rows["row_id"].to_numpy()
        self._purpose = purpose
        texts = [rows[name] for name in TEXT_COLUMNS if name in rows.column_names]
        lengths = [pc.utf8_length(column).to_numpy() for column in texts]
        self._lengths: Indices = np.max(np.stack(lengths), axis=0)
        # In dropout pairs the positive is the anchor: once is enough there.
        self._texts = np.stack([seeding.text_ids(column.to_pylist()) for column in texts], axis=1)

    def __len__(self) -> int:
        return math.ceil(len(self._ids) / int(self.batch_size))

    def __iter__(self) -> Iterator[list[int]]:
        order = np.argsort(
            seeding.draws(self.seed, f"{self._purpose} rows", self._ids, self.epoch), kind="stable"
        )
        batches: list[list[int]] = []
        for start in range(0, len(order), WINDOW * self.batch_size):
            window = order[start : start + WINDOW * self.batch_size]
            window = window[np.argsort(self._lengths[window], kind="stable")]
            batches.extend(self._cut(window.tolist()))
        places = np.arange(len(batches), dtype=np.uint64)
        draws = seeding.draws(self.seed, f"{self._purpose} batches", places, self.epoch)
        for place in np.argsort(draws, kind="stable"):
            yield batches[place]

    def _cut(self, window: list[int]) -> Iterator[list[int]]:
        waiting = window
        while waiting:
            batch: list[int] = []
            later: list[int] = []
            seen: set[int] = set()
            for place, row in enumerate(waiting):
                if len(batch) == self.batch_size:
                    later.extend(waiting[place:])
                    break
                texts = set(self._texts[row].tolist())
                if seen.isdisjoint(texts):
                    seen |= texts
                    batch.append(row)
                else:
                    later.append(row)
            # Only repetitions are left: the batch is filled with them rather than left small.
            missing = self.batch_size - len(batch)
            yield batch + later[:missing]
            waiting = later[missing:]


@dataclass
class Collator(SentenceTransformerDataCollator):  # type: ignore[misc]
    """Rows to features: words of the anchor repeated if asked, texts tokenised by column."""

    seed: int = 0
    word_repetition: bool = False
    epoch: int = 0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Features of a batch; `row_id` seeds, and is no text."""
        rows = []
        for feature in features:
            row = dict(feature)
            row_id = row.pop("row_id")
            if self.word_repetition:
                row["anchor"] = repeat_words(row["anchor"], self.seed, row_id, self.epoch)
            rows.append(row)
        return super().__call__(rows)  # type: ignore[no-any-return]
