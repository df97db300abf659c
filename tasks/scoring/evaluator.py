"""Scorer `evaluator`: the cosine between each candidate and its sentence, by the evaluator."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.tasks.rejects import rejects
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, emit_scores
from tercet.tasks.stage import Config, Stage, Work

Vectors: TypeAlias = npt.NDArray[np.float32]

# Candidates scored at once: two vectors each are in memory.
_ROWS = 16_384


class EvaluatorConfig(Config):
    """This scorer has no parameters."""


def run(work: Work) -> None:
    """Scores one part of the candidates; a row without a score is a reject."""
    done, total = 0, work.inputs["candidates"].count("candidates")
    columns = ["candidate_id", "sentence_id", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns, _ROWS):
        _score(work, batch)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


@dataclass(frozen=True)
class _Index:
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
_laid_out: dict[_Stamp, _Index] = {}


def _index(work: Work) -> _Index:
    files = work.inputs["embeddings"].files("embeddings")
    stats = [Path(file).stat() for file in files]
    stamp = tuple((f, s.st_size, s.st_mtime_ns) for f, s in zip(files, stats, strict=True))
    if stamp not in _laid_out:
        _laid_out.clear()
        _laid_out[stamp] = _lay_out(files, work.inputs["embeddings"].count("embeddings"), work)
    return _laid_out[stamp]


def _lay_out(files: list[str], count: int, work: Work) -> _Index:
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
    return _Index(ids[order], order, np.zeros((0, 1), np.float32) if vectors is None else vectors)


def _score(work: Work, batch: pa.RecordBatch) -> None:
    anchors = batch["sentence_id"].to_numpy(zero_copy_only=False).astype(np.uint64)
    texts = seeding.text_ids(batch["text"].to_pylist())
    ids, vectors = _index(work).find(np.union1d(anchors, texts))
    a, b = (
        np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)) for wanted in (anchors, texts)
    )
    there = np.zeros(batch.num_rows, dtype=bool)
    cosines = np.empty(0)
    if len(ids):
        there = (ids[a] == anchors) & (ids[b] == texts)
        left, right = vectors[a[there]], vectors[b[there]]
        lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.einsum("nd,nd->n", left, right) / lengths
        cosines = np.clip(cosines, -1.0, 1.0)
    emit_scores(work, SCORER.name, SCORER.measure, batch.filter(pa.array(there)), cosines)
    lost = batch.filter(pa.array(~there))
    if lost.num_rows:
        detail = "the candidate or its sentence has no embedding"
        table = rejects(STAGE_NAME, lost["candidate_id"], "no_embedding", detail, lost["text"])
        work.emit("rejects", table)


STAGE = Stage(
    name=STAGE_NAME,
    config=EvaluatorConfig,
    tables={"scores": SCORES},
    run=run,
    each="candidates",
    seeded=False,
)
SCORER = Scorer("evaluator", "similarity", STAGE, reads=("embeddings",))
