"""Scorer `evaluator`: the cosine between each candidate and its sentence, by the evaluator."""

import numpy as np

from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer
from tercet.tasks.scoring.stored_vectors import Floats, score_by_vectors
from tercet.tasks.stage import Config, Stage, Work


class EvaluatorConfig(Config):
    """This scorer has no parameters."""


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
    config=EvaluatorConfig,
    tables={"scores": SCORES},
    run=run,
    each="candidates",
    looked_up=("embeddings",),
    seeded=False,
)
SCORER = Scorer("evaluator", "similarity", STAGE, reads=("embeddings",))
