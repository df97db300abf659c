"""Scorer `length`: the longer a candidate, the likelier it is right."""

import numpy as np

from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, emit_scores
from tercet.tasks.stage import Config, EachPart, Stage


class Length(Config):
    """From how many words on a text is right."""

    words: int = 4


def score(work):
    """Scores of one part of the candidates."""
    for batch in work.inputs["candidates"].batches("candidates", ["candidate_id", "text"]):
        words = np.array([len(text.split()) for text in batch["text"].to_pylist()])
        emit_scores(work, "length", "p_true", batch, np.minimum(words / work.config.words, 1.0))


STAGE = Stage(
    STAGE_NAME, Length, {"scores": SCORES}, score, cut=EachPart("candidates"), seeded=False
)
SCORER = Scorer("length", "p_true", STAGE)
