"""Stage `score`: the evaluator's cosine between each candidate and its anchor."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.tasks.stage import Config, Stage, Work

SCORES = pa.schema(
    [
        ("candidate_id", pa.uint64()),
        ("scorer", pa.string()),
        ("measure", pa.string()),
        ("value", pa.float64()),
    ]
)

# Candidates scored at once: two vectors each are in memory.
_ROWS = 16_384


class ScoreConfig(Config):
    """The similarity has no parameters."""


def run(work: Work) -> None:
    """Scores of one part of the candidates; a row without a number is a reject."""
    done, total = 0, work.inputs["candidates"].count("candidates")
    columns = ["candidate_id", "sentence_id", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns, _ROWS):
        _score(work, batch)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def _score(work: Work, batch: pa.RecordBatch) -> None:
    import numpy as np

    anchors = batch["sentence_id"].to_numpy(zero_copy_only=False).astype(np.uint64)
    texts = seeding.text_ids(batch["text"].to_pylist())
    ids, vectors = _vectors(work, np.union1d(anchors, texts))
    a, b = (
        np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)) for wanted in (anchors, texts)
    )
    values = np.full(batch.num_rows, np.nan)
    there = np.zeros(batch.num_rows, dtype=bool)
    if len(ids):
        there = (ids[a] == anchors) & (ids[b] == texts)
        left, right = vectors[a[there]], vectors[b[there]]
        lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.einsum("nd,nd->n", left, right) / lengths
        values[there] = np.clip(cosines, -1.0, 1.0)
    scored = np.isfinite(values)
    n = int(scored.sum())
    table = {
        "candidate_id": batch["candidate_id"].filter(pa.array(scored)),
        "scorer": pa.array(["evaluator"] * n, pa.string()),
        "measure": pa.array(["similarity"] * n, pa.string()),
        "value": pa.array(values[scored]),
    }
    work.emit("scores", pa.table(table, schema=SCORES))
    _reject(work, batch, there & ~scored, "nan_score", "the cosine with its anchor is no number")
    _reject(work, batch, ~there, "no_embedding", "the candidate or its anchor has no embedding")


def _vectors(work: Work, wanted: Any) -> tuple[Any, Any]:
    """Ids, sorted, and their vectors (ids, dimension) in float64, of the texts wanted."""
    import numpy as np

    ids, parts = [], []
    chosen = pa.array(wanted)
    for batch in work.inputs["embeddings"].batches("embeddings", ["text_id", "vector"], 8_192):
        kept = batch.filter(pc.is_in(batch["text_id"], value_set=chosen))
        if kept.num_rows:
            ids.append(kept["text_id"].to_numpy())
            flat = kept["vector"].flatten().to_numpy(zero_copy_only=False)
            parts.append(flat.reshape(kept.num_rows, -1))
    if not ids:
        return np.zeros(0, dtype=np.uint64), np.zeros((0, 1))
    joined, order = np.unique(np.concatenate(ids), return_index=True)
    return joined, np.concatenate(parts)[order].astype(np.float64)


def _reject(work: Work, batch: pa.RecordBatch, chosen: Any, reason: str, detail: str) -> None:
    n = int(chosen.sum())
    if not n:
        return
    kept = batch.filter(pa.array(chosen))
    rows = {
        "stage": ["score"] * n,
        "row_id": kept["candidate_id"],
        "reason": [reason] * n,
        "detail": [detail] * n,
        "text": kept["text"],
    }
    work.emit("rejects", pa.table(rows))


STAGE = Stage(
    name="score",
    config=ScoreConfig,
    tables={"scores": SCORES},
    run=run,
    each="candidates",
    seeded=False,
)
