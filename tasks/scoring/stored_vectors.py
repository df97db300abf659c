"""The vectors that `embed` has stored, found by the ids of their texts."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tercet.models.seeding import Ids
from tercet.tasks.stage import Work

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of all texts, on disk, by the texts' ids.

    ids: sorted. Shape (texts,).
    rows: the row in `vectors` of each id. Shape (texts,).
    vectors: a memory map of a file without a name. Shape (texts, dimension).
    """

    ids: Ids
    rows: npt.NDArray[np.int64]
    vectors: Vectors

    def find(self, wanted: Ids) -> tuple[Ids, npt.NDArray[np.float64]]:
        """Those of the wanted ids (sorted, distinct) that exist, with their vectors."""
        if not len(self.ids):
            return np.empty(0, np.uint64), np.zeros((0, 1))
        places = np.searchsorted(self.ids, wanted).clip(max=len(self.ids) - 1)
        there = self.ids[places] == wanted
        rows = self.rows[places[there]]
        found = np.empty((len(rows), self.vectors.shape[1]))
        order = np.argsort(rows)
        found[order] = self.vectors[rows[order]]  # read from front to back
        return wanted[there], found


_Stamp: TypeAlias = tuple[tuple[str, int, int], ...]

# One entry: the parts that a process scores share their embeddings, which are laid out once.
_laid_out: dict[_Stamp, StoredVectors] = {}


def stored_vectors(work: Work) -> StoredVectors:
    """The vectors of the slot `embeddings`, laid out once for the parts that follow each other."""
    files = work.inputs["embeddings"].files("embeddings")
    stats = [Path(file).stat() for file in files]
    stamp = tuple((f, s.st_size, s.st_mtime_ns) for f, s in zip(files, stats, strict=True))
    if stamp not in _laid_out:
        _laid_out.clear()
        _laid_out[stamp] = _lay_out(files, work.inputs["embeddings"].count("embeddings"), work)
    return _laid_out[stamp]


def _lay_out(files: list[str], count: int, work: Work) -> StoredVectors:
    ids = np.empty(count, np.uint64)
    vectors: Vectors | None = None
    done = 0
    for file in files:
        with pq.ParquetFile(file) as source:
            for batch in source.iter_batches(8_192, columns=["text_id", "vector"]):
                n = batch.num_rows
                if not n:
                    continue
                flat = batch["vector"].flatten().to_numpy(zero_copy_only=False).reshape(n, -1)
                if vectors is None:
                    shape = (len(ids), flat.shape[1])
                    # A file without a name disappears with the process, however that ends.
                    with tempfile.TemporaryFile(dir=work.scratch) as unnamed:
                        vectors = np.memmap(unnamed, np.float32, "w+", shape=shape)
                ids[done : done + n] = batch["text_id"].to_numpy()
                vectors[done : done + n] = flat
                done += n
    order = np.argsort(ids, kind="stable")
    return StoredVectors(
        ids[order], order, np.zeros((0, 1), np.float32) if vectors is None else vectors
    )
