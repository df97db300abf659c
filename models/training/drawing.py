"""Positives drawn afresh in every epoch (Generate-CSE's random selection; no torch here).

Each sentence gets one of: its words in another order, some of them deleted, some repeated, or a
text that was generated from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text.word_noise import (
    SHORT,
    cut,
    in_another_order,
    repeated,
    sentences_of,
    shuffled,
    words_of,
)

OPERATIONS = ("word_shuffle", "cutoff", "word_repetition", "generated")
# Of a sentence that none of the operations fits: its positive is the sentence itself.
UNCHANGED = "none"


@dataclass(frozen=True)
class Drawing:
    """How positives are drawn.

    shares: of each of `OPERATIONS`, >= 0. A sentence that an operation does not fit (three words
        or fewer have no cutoff, one word has no order, and not all have a generation) draws among
        the others, in proportion.
    generated: row_id, candidate_id (uint64) and text, some or none a row, sorted by both.
    """

    shares: Mapping[str, float]
    generated: pa.Table

    def positives(self, ids: Ids, texts: Sequence[str], seed: int, epoch: int) -> pa.Table:
        """operation, text, candidate_id (null but for generations): a row a text, in order.

        A row is a function of (seed, id, epoch) and its text alone.
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
        made: list[str] = list(texts)
        for place, name in enumerate(OPERATIONS[:-1]):
            rows = np.flatnonzero(number == place).tolist()
            sources = [split[row] for row in rows]
            changed = _changed(name, ids[rows], sources, seed, epoch)
            for row, words in zip(rows, changed, strict=True):
                made[row] = " ".join(words)
        of_candidates = number == len(OPERATIONS) - 1
        several = np.maximum(last - first, 1)
        candidate = first + seeding.below(seed, "generation", ids, several, epoch)
        candidates = self.generated.take(pa.array(candidate[of_candidates]))
        rows = np.flatnonzero(of_candidates).tolist()
        for row, text in zip(rows, candidates["text"].to_pylist(), strict=True):
            made[row] = text
        of_row: list[int | None] = [None] * len(texts)
        for row, one in zip(rows, candidates["candidate_id"].to_pylist(), strict=True):
            of_row[row] = one
        names = np.array([*OPERATIONS, UNCHANGED], dtype=object)[number]
        return pa.table(
            {
                "operation": pa.array(names.tolist(), pa.string()),
                "text": pa.array(made, pa.string()),
                "candidate_id": pa.array(of_row, pa.uint64()),
            }
        )

    def _places(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        """The first of each row's generations, and the one after its last."""
        of = self.generated["row_id"].to_numpy()
        return np.searchsorted(of, ids, side="left"), np.searchsorted(of, ids, side="right")


def _changed(
    name: str, ids: Ids, sources: Sequence[Sequence[str]], seed: int, epoch: int
) -> list[list[str]]:
    words = words_of(ids, sources)
    if name == "cutoff":
        return sentences_of(cut(words, seed, epoch))
    if name == "word_repetition":
        return sentences_of(repeated(words, seed, epoch))
    made = sentences_of(shuffled(words, seed, epoch))
    return [in_another_order(new, source) for new, source in zip(made, sources, strict=True)]
