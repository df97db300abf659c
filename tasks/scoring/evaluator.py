"""Scorer `evaluator`: the cosine between each candidate and its sentence, by the evaluator."""

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.tasks.rejects import rejects
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, anchor_ids, emit_scores
from tercet.tasks.scoring.stored_vectors import stored_vectors
from tercet.tasks.stage import Config, Stage, Work

# Candidates scored at once: two vectors each are in memory.
_ROWS = 16_384


class EvaluatorConfig(Config):
    """This scorer has no parameters."""


def run(work: Work) -> None:
    """Scores one part of the candidates; a row without a score is a reject."""
    done, total = 0, work.inputs["candidates"].count("candidates")
    columns = ["candidate_id", "sentence_id", "anchor", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns, _ROWS):
        _score(work, batch)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def _score(work: Work, batch: pa.RecordBatch) -> None:
    anchors = anchor_ids(batch)
    texts = seeding.text_ids(batch["text"].to_pylist())
    ids, vectors = stored_vectors(work).find(np.union1d(anchors, texts))
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
