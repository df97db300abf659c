"""Scorer `evaluator`: the cosine between each candidate and its sentence, by the evaluator.

It reads the vectors that `embed` stored, by the ids of their texts.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models.seeding import Ids, text_ids
from tercet.tasks.rejects import rejects
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Measure, Scorer, anchor_ids, emit_scores
from tercet.tasks.stage import Config, EachPart, Stage, Work

Vectors: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.float64]
# Candidates scored at once: two vectors each are in memory.
_ROWS = 16_384


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

    def find(self, ids: Ids) -> tuple[Ids, Floats]:
        """The ids (sorted, distinct) that are stored, with their vectors."""
        if not len(self.ids):
            return np.empty(0, np.uint64), np.zeros((0, 1))
        places = np.searchsorted(self.ids, ids).clip(max=len(self.ids) - 1)
        stored = self.ids[places] == ids
        rows = self.rows[places[stored]]
        vectors = np.empty((len(rows), self.vectors.shape[1]))
        order = np.argsort(rows)
        vectors[order] = self.vectors[rows[order]]  # read from front to back
        return ids[stored], vectors


def stored_vectors(work: Work) -> StoredVectors:
    """The vectors of the slot `embeddings`, laid out once for the parts of a step."""
    return work.once(_lay_out)


def score_by_vectors(
    work: Work, name: str, measure: Measure, compare: Callable[[Floats, Floats], Floats]
) -> None:
    """Scores one part of the candidates by the stored vectors of their anchors and texts.

    compare: from both vectors, (rows, dimension) each, to the measure, (rows,). A row without a
    score is a reject.
    """
    done, total = 0, work.inputs["candidates"].count("candidates")
    columns = ["candidate_id", "sentence_id", "anchor", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns, _ROWS):
        anchors, texts = anchor_ids(batch), text_ids(batch["text"].to_pylist())
        ids, vectors = stored_vectors(work).find(np.union1d(anchors, texts))
        has_both = np.isin(anchors, ids) & np.isin(texts, ids)
        values = np.empty(0)
        if len(ids):
            sides = (np.searchsorted(ids, side[has_both]) for side in (anchors, texts))
            values = compare(*(vectors[places] for places in sides))
        emit_scores(work, name, measure, batch.filter(pa.array(has_both)), values)
        lost = batch.filter(pa.array(~has_both))
        if lost.num_rows:
            detail = "the candidate or its sentence has no embedding"
            row_ids, lost_texts = lost["candidate_id"], lost["text"]
            work.emit("rejects", rejects(STAGE_NAME, row_ids, "no_embedding", detail, lost_texts))
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def _lay_out(work: Work) -> StoredVectors:
    ids = np.empty(work.inputs["embeddings"].count("embeddings"), np.uint64)
    vectors: Vectors | None = None
    done = 0
    for file in work.inputs["embeddings"].files("embeddings"):
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


def run(work: Work) -> None:
    """Scores one part of the candidates; a row without a score is a reject."""
    score_by_vectors(work, SCORER.name, SCORER.measure, _cosines)


def _cosines(first: Floats, second: Floats) -> Floats:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.einsum("nd,nd->n", first, second) / lengths
    return np.asarray(np.clip(cosines, -1.0, 1.0))


STAGE = Stage(
    name=STAGE_NAME,
    config=Config,
    tables={"scores": SCORES},
    run=run,
    cut=EachPart("candidates", looked_up=("embeddings",)),
    seeded=False,
)
SCORER = Scorer("evaluator", "similarity", STAGE, reads=("embeddings",))
