"""Scorer `pair`: the probability that a candidate follows from its sentence, by `fit_pair`.

It reads the vectors that `embed` has stored, so that it encodes nothing.
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.discriminators import pair
from tercet.tasks.rejects import rejects
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, anchor_ids, emit_scores
from tercet.tasks.scoring.stored_vectors import stored_vectors
from tercet.tasks.stage import BadInput, Config, Stage, Work

# Candidates scored at once: two vectors each are in memory.
_ROWS = 16_384


class PairConfig(Config):
    """Which discriminator judges."""

    made_by: ClassVar[str] = "fit_pair"
    model: str = Field(
        min_length=1,
        description="One of `models` that fit_pair makes, on this evaluator's vectors.",
    )

    def models(self) -> dict[str, str]:
        """The models that it reads, by slot."""
        return {"discriminator": self.model}


def run(work: Work) -> None:
    """Scores one part of the candidates; a row without a score is a reject."""
    model = work.once(_model)
    done, total = 0, work.inputs["candidates"].count("candidates")
    columns = ["candidate_id", "sentence_id", "anchor", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns, _ROWS):
        _score(work, batch, model)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def _score(work: Work, batch: pa.RecordBatch, model: pair.PairModel) -> None:
    anchors = anchor_ids(batch)
    texts = seeding.text_ids(batch["text"].to_pylist())
    ids, vectors = stored_vectors(work).find(np.union1d(anchors, texts))
    a, b = (
        np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)) for wanted in (anchors, texts)
    )
    there = np.zeros(batch.num_rows, dtype=bool)
    values = np.empty(0)
    if len(ids):
        if vectors.shape[1] != model.dimension:
            raise BadInput(
                f"score.pair: the discriminator reads vectors of {model.dimension} numbers, and "
                f"the evaluator's have {vectors.shape[1]}: fit it again for this evaluator."
            )
        there = (ids[a] == anchors) & (ids[b] == texts)
        values = model.probabilities(vectors[a[there]], vectors[b[there]])
    emit_scores(work, SCORER.name, SCORER.measure, batch.filter(pa.array(there)), values)
    lost = batch.filter(pa.array(~there))
    if lost.num_rows:
        detail = "the candidate or its sentence has no embedding"
        table = rejects(STAGE_NAME, lost["candidate_id"], "no_embedding", detail, lost["text"])
        work.emit("rejects", table)


def _model(work: Work) -> pair.PairModel:
    try:
        return pair.read(work.models["discriminator"])
    except ValueError as error:
        raise BadInput(f"score.pair: {error}.") from error


STAGE = Stage(
    name=STAGE_NAME,
    config=PairConfig,
    tables={"scores": SCORES},
    run=run,
    each="candidates",
    seeded=False,
    # A discriminator under another name is the same.
    locations=("model",),
)
SCORER = Scorer("pair", "p_true", STAGE, reads=("embeddings",))
