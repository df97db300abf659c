"""Stage `whiten`: appends a whitening to the encoder, fitted without labels."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.errors import kind_of
from tercet.models import seeding
from tercet.models.encoders.settings import Prompts
from tercet.storage.rows import quoted
from tercet.tasks.config import Wired, WiredForm
from tercet.tasks.encoders import load_encoder
from tercet.tasks.stage import BadInput, Stage, Work, connection
from tercet.tasks.training.training_rows import drop_contaminated

WHITENING = pa.schema(
    [
        ("seed", pa.int64()),
        ("direction", pa.int32()),
        ("variance", pa.float64()),
        ("factor", pa.float64()),
        ("texts", pa.int64()),
    ]
)
"""Table `whitening`. One row per direction of the encoder's space, in descending order of variance
(`whiten`).

Key: `seed`, `direction`.

Columns:
    seed: the seed of the training that made the encoder, for the backbone the recipe's
    direction: from 1
    variance: variance of the texts' vectors along it
    factor: factor on vectors along it, `variance` ** (−`whiten.power` / 2); NULL if the direction
        is dropped
    texts: number of texts that the whitening was fitted on
"""


# Most training sentences to fit on.
_TEXTS = 10_000


class WhitenConfig(WiredForm):
    """How far the vectors are whitened, which are made as `evaluate` makes them."""

    dimensions: int | None = Field(
        default=256, ge=1, description="Most directions kept, those of largest variance; null: all."
    )
    power: float = Field(
        default=0.3,
        ge=0.0,
        le=1.0,
        description="Each direction is divided by its standard deviation to this power: 0 leaves "
        "it as it is, 1 whitens.",
    )
    # corpora: the corpora whose sentences the map is fitted on, all if none is named. model_seed:
    # the seed of the training that made the encoder, null for the run's.
    corpora: Wired[tuple[str, ...]] = ()
    prompts: Wired[Prompts] = Prompts()
    model_seed: Wired[int | None] = None


def run(work: Work) -> Path:
    """Fits the whitening; returns the whitened encoder's directory, emits `whitening`."""
    from tercet.models.encoders import encoder
    from tercet.models.encoders.forms import whiten, whitening

    config: WhitenConfig = work.config
    texts = _texts(work)
    model = load_encoder(work, "encoder", key="whiten")
    try:
        vectors = encoder.encode(
            model,
            texts,
            work.resources.batch_size,
            config.precision,
            lambda done: work.resources.progress(done, len(texts), "texts"),
            normalise=False,
        )
        if not np.isfinite(vectors).all():
            raise ValueError("the encoder gives NaN or infinity: its training has diverged")
        dimensions = config.dimensions and min(config.dimensions, vectors.shape[1])
        fitted = whitening(vectors, dimensions, config.power)
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"whiten: {error}") from error
    whiten(model, fitted)
    count = len(fitted.variances)
    kept = np.arange(count) < fitted.dimensions
    seed = work.seed if config.model_seed is None else config.model_seed
    table = {
        "seed": pa.array(np.full(count, seed), pa.int64()),
        "direction": pa.array(np.arange(1, count + 1), pa.int32()),
        "variance": pa.array(fitted.variances),
        "factor": pa.array(fitted.factors, mask=~kept),
        "texts": pa.array(np.full(count, len(texts)), pa.int64()),
    }
    work.emit("whitening", pa.table(table, schema=WHITENING))
    return encoder.save_encoder(model, work.scratch / "model")


def _texts(work: Work) -> list[str]:
    """A seeded sample of the corpora's train sentences, sorted by id."""
    config: WhitenConfig = work.config
    sentences = work.inputs["sentences"].sql("sentences")
    listed = ", ".join(map(quoted, config.corpora))
    of_corpora = f"AND corpus IN ({listed})" if listed else ""
    with connection(work) as db:
        where = f"FROM {sentences} WHERE split = 'train' {of_corpora}"
        columns = db.sql(f"SELECT sentence_id {where}").fetchnumpy()
        ids = np.asarray(columns["sentence_id"], dtype=np.uint64)
        draws = seeding.draws(work.seed, "whitened sentences", ids)
        chosen = ids[np.argsort(draws, kind="stable")[:_TEXTS]]
        db.register("chosen", pa.table({"sentence_id": chosen}))
        rows = db.sql(
            f"SELECT sentence_id AS row_id, text AS anchor {where} AND sentence_id IN "
            "(SELECT sentence_id FROM chosen) ORDER BY sentence_id"
        ).to_arrow_table()
    texts: list[str] = drop_contaminated(work, rows, "guarded_sentences", "whiten")[
        "anchor"
    ].to_pylist()
    return texts


STAGE = Stage(
    name="whiten",
    config=WhitenConfig,
    tables={"whitening": WHITENING},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
)
