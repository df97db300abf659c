"""Scorer `pair`: the probability that a candidate follows from its sentence, by `fit_pair`.

It reads the vectors that `embed` stored, and encodes nothing.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from tercet.errors import kind_of
from tercet.models import discriminators
from tercet.tasks.scoring.evaluator import Floats, score_by_vectors
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer
from tercet.tasks.stage import BadInput, Config, EachPart, Stage, Work


class PairConfig(Config):
    """The discriminator that judges."""

    made_by: ClassVar[str] = "fit_pair"
    model: str = Field(
        min_length=1,
        description="One of `models` that fit_pair makes, on this evaluator's vectors.",
    )

    def models(self) -> dict[str, str]:
        """The models that the scorer reads, by slot."""
        return {"discriminator": self.model}


def run(work: Work) -> None:
    """Scores one part of the candidates; a row without a score is a reject."""
    model = work.once(_load)

    def judge(first: Floats, second: Floats) -> Floats:
        if first.shape[1] != model.dimension:
            raise BadInput(
                "unfit_model",
                f"score.pair: the discriminator reads vectors of {model.dimension} numbers, and "
                f"the evaluator's have {first.shape[1]}: fit it again for this evaluator.",
            )
        return np.asarray(model.probabilities(first, second))

    score_by_vectors(work, SCORER.name, SCORER.measure, judge)


def _load(work: Work) -> discriminators.PairModel:
    try:
        return discriminators.read(work.models["discriminator"])
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"score.pair: {error}.") from error


STAGE = Stage(
    name=STAGE_NAME,
    config=PairConfig,
    tables={"scores": SCORES},
    run=run,
    cut=EachPart("candidates", looked_up=("embeddings",)),
    seeded=False,
    # Renaming a discriminator changes nothing.
    locations=("model",),
)
SCORER = Scorer("pair", "p_true", STAGE, reads=("embeddings",))
