"""Stage `fit_pair`: fits a discriminator to the evaluator's vectors of labelled pairs.

Each distinct text is encoded once. Vectors are kept in the scratch directory, so that a killed
stage encodes only missing texts when it resumes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from tercet.errors import kind_of
from tercet.tasks.config import Wired, WiredForm
from tercet.tasks.encoders import kept_vectors, load_encoder
from tercet.tasks.stage import BadInput, Stage, Work
from tercet.tasks.training.discriminator_figures import (
    DISCRIMINATOR_METRICS,
    RELIABILITY,
    emit_figures,
)
from tercet.tasks.training.judged_pairs import JudgedConfig, labels_of, read_judged


class FitPairConfig(JudgedConfig, WiredForm):
    """The pairs to which the discriminator is fitted, on the vectors that `embed` makes."""

    name: Wired[str] = ""
    max_rows: int | None = Field(
        default=50_000,
        ge=10,
        description="A seeded sample of this many pairs to fit to; null: all.",
    )
    max_length: Wired[int] = 128

    def models(self) -> dict[str, str]:
        """Names no model: the vectors are the evaluator's."""
        return {}


def run(work: Work) -> Path:
    """Fits the discriminator; returns its directory, emits its figures on held-out anchors."""
    from tercet.models import discriminators

    config: FitPairConfig = work.config
    stage = f"fit_pair: {config.name}"
    judged = read_judged(work, config, stage)
    texts = sorted(
        {text for part in judged for name in ("anchor", "text") for text in part[name].to_pylist()}
    )
    place = {text: number for number, text in enumerate(texts)}
    try:
        vectors = _vectors(work, texts)
        parts = {
            name: discriminators.Vectors(
                vectors,
                np.array([place[text] for text in part["anchor"].to_pylist()]),
                np.array([place[text] for text in part["text"].to_pylist()]),
                labels_of(part),
            )
            for name, part in judged._asdict().items()
        }
        model = discriminators.fitted(parts["fit"], parts["validation"])
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"{stage}: {error}") from error
    logits = discriminators.pair_logits(model, parts["test"])
    cosines = {name: discriminators.cosines(part) for name, part in parts.items()}
    emit_figures(work, config.name, judged, logits, model.calibration, cosines)
    directory = work.scratch / "model"
    directory.mkdir(parents=True, exist_ok=True)
    discriminators.write(directory, model)
    return directory


def _vectors(work: Work, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The evaluator's vectors of the texts, (texts, dimension), in their order."""
    from tercet.models.encoders import encoder

    config: FitPairConfig = work.config
    model = load_encoder(work, "evaluator", key=f"fit_pair: {config.name}")
    size, precision = work.resources.batch_size, config.precision
    return kept_vectors(
        work,
        texts,
        lambda some, tell: encoder.encode(model, some, size, precision, tell),
        "texts",
    )


STAGE = Stage(
    name="fit_pair",
    config=FitPairConfig,
    tables={"discriminator_metrics": DISCRIMINATOR_METRICS, "reliability": RELIABILITY},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
)
