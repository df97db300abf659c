"""Batches of rows: drawn from groups and shuffled by seed, row and round."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids

Indices: TypeAlias = npt.NDArray[np.int64]

# Batches in a window. Rows are sorted by length within a window: little padding, still shuffled.
WINDOW = 20


class LengthWindows:
    """Batches of rows of similar length, reshuffled each round; no row is left out.

    Rows are shuffled, cut into windows of 20 batches, sorted by length within a window, cut into
    batches, and the batches shuffled. A row whose text is already in a batch moves to a later batch
    of its window, so that a text is not its own negative; in the last batch it stays.
    """

    def __init__(
        self, rows: pa.Table, texts: Sequence[str], batch_size: int, seed: int, purpose: str
    ) -> None:
        """rows: row_id (uint64) and the columns `texts`; all but the first may have nulls.

        purpose: names the draws.
        """
        self._ids: Ids = rows["row_id"].to_numpy()
        self._size, self._seed, self._purpose = batch_size, seed, purpose
        # A missing text counts as a copy of the row's first.
        columns = [pc.coalesce(rows[name], rows[texts[0]]) for name in texts]
        lengths = [pc.utf8_length(column).to_numpy() for column in columns]
        self._lengths: Indices = np.max(np.stack(lengths), axis=0)
        self._texts = np.stack([seeding.text_ids(column.to_pylist()) for column in columns], axis=1)

    def round(self, number: int, rows: Indices | None = None) -> list[list[int]]:
        """The round's batches, as numbers of rows. rows: the rows to use; None: all."""
        ids = self._ids if rows is None else self._ids[rows]
        draws = seeding.draws(self._seed, f"{self._purpose} rows", ids, number)
        order = np.argsort(draws, kind="stable")
        if rows is not None:
            order = rows[order]
        batches: list[list[int]] = []
        for start in range(0, len(order), WINDOW * self._size):
            window = order[start : start + WINDOW * self._size]
            window = window[np.argsort(self._lengths[window], kind="stable")]
            batches.extend(self._cut(window.tolist()))
        places = np.arange(len(batches), dtype=np.uint64)
        draws = seeding.draws(self._seed, f"{self._purpose} batches", places, number)
        return [batches[place] for place in np.argsort(draws, kind="stable")]

    def _cut(self, window: list[int]) -> Iterator[list[int]]:
        waiting = window
        while waiting:
            batch: list[int] = []
            later: list[int] = []
            seen: set[int] = set()
            for place, row in enumerate(waiting):
                if len(batch) == self._size:
                    later.extend(waiting[place:])
                    break
                texts = set(self._texts[row].tolist())
                if seen.isdisjoint(texts):
                    seen |= texts
                    batch.append(row)
                else:
                    later.append(row)
            # If only repeated texts are left, they fill the batch.
            missing = self._size - len(batch)
            yield batch + later[:missing]
            waiting = later[missing:]


def one_of_each(groups: Ids, ids: Ids, seed: int, purpose: str, number: int) -> Indices:
    """Indices of the rows drawn in this round, one per group, in the rows' order."""
    draws = seeding.draws(seed, f"{purpose} draws", ids, number)
    order = np.lexsort((draws, groups))
    _, first = np.unique(groups[order], return_index=True)
    return np.sort(order[first])
