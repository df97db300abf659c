"""Stage `entry_matrix`: a vector for every entry of a dictionary, made from its definitions.

A definition of several entries is encoded once. Vectors are kept in the scratch directory, so that
a killed stage continues after its last block.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.errors import kind_of
from tercet.models import seeding
from tercet.models.machine import Precision
from tercet.tasks.encoders import kept_vectors
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.training_rows import drop_contaminated

ENTRY_SPACES = pa.schema(
    [
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)
"""Table `entry_spaces`. Figures of the entries that a phase trains against (`entry_matrix.PHASE`).

Key: `name`, `seed`, `metric`.

Columns:
    name: the phase, or PHASE.PART if it has several parts; with `.own` at the end, the entries
        made by the phase's trained encoder
    seed: the seed of the training that made the encoder; NULL: an untrained encoder, the same for
        all seeds
    metric: `entries`, `definitions`: their number; `isotropy`: from 0 to 1, the smallest over the
        largest sum of exp(a · e) along the singular directions a, with entries of mean length 1;
        `mean_cosine` of two entries; standard `deviation` of all numbers; `ica_rounds`: 1,000 means
        that ICA has not converged
    value: the figure
"""
ENTRY_DIRECTIONS = pa.schema(
    [
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("direction", pa.int32()),
        ("singular_value", pa.float64()),
        ("share", pa.float64()),
    ]
)
"""Table `entry_directions`. One row per direction of such a space, not centred.

Key: `name`, `seed`, `direction`.

Columns:
    name: as in `entry_spaces`
    seed: as in `entry_spaces`
    direction: from 1, in descending order of singular values
    singular_value: of the matrix of all entries
    share: of the squares of all singular values
"""
ENTRY_POINTS = pa.schema(
    [
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("entry_id", pa.int32()),
        ("text", pa.string()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("pca_x", pa.float64()),
        ("pca_y", pa.float64()),
    ]
)
"""Table `entry_points`. Up to 2,000 entries, drawn by their ids, as points in a plane.

Key: `name`, `seed`, `text`.

Columns:
    name: as in `entry_spaces`
    seed: as in `entry_spaces`
    entry_id: → `entries.entry_id`
    text: the entry
    x: along the first singular direction
    y: along the second
    pca_x: along the first principal component: the direction of the largest variance around the
        mean
    pca_y: along the second
"""

# Entries whose words are looked up together.
_BLOCK = 8_192
# Entries that `entry_points` shows.
_POINTS = 2_000

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


class EntryMatrixConfig(Config):
    """Which definitions are encoded, and how their vectors become the matrix."""

    name: str = Field(description="Of the part of a phase that trains against it.")
    corpus: str
    entries: Literal["mean", "cls", "words"] = "mean"
    ica: float | None = None
    ica_rows: int | None = None
    max_length: int = 64
    precision: Precision = "fp32"
    trust_remote_code: bool = False
    model_seed: int | None = Field(
        default=None,
        description="Of the training that made the encoder; null: the same one for all seeds.",
    )


def run(work: Work) -> Path:
    """Writes the space of the entries; emits its shape, and entries without definitions."""
    from tercet.models.encoders import entry_space

    config: EntryMatrixConfig = work.config
    rows = definitions(work, config.corpus, f"entry_matrix: {config.name}")
    lists = rows["entries"].combine_chunks()
    owned = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    owners = lists.flatten().to_numpy(zero_copy_only=False)
    ids, entry_rows = np.unique(owners, return_inverse=True)
    texts = _texts(work, ids.astype(np.int64))
    folder, rounds = work.scratch / "model", None
    try:
        if config.entries == "words":
            matrix = _from_words(work, folder, ids, texts)
        else:
            vectors = _encoded(work, rows["anchor"].to_pylist())
            matrix = entry_space.create_space(folder, ids, texts, vectors.shape[1])
            entry_space.fill_means(matrix, vectors, entry_rows, owned.astype(np.int64))
            if config.ica is not None:
                turn = entry_space.make_independent(matrix, config.ica, config.ica_rows)
                entry_space.write_turn(folder, turn, vectors)
                rounds = turn.rounds
        matrix.flush()  # type: ignore[attr-defined]
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"entry_matrix: {config.name}: {error}"
        ) from error
    _emit_shape(work, matrix, ids, texts, {"definitions": rows.num_rows, "ica_rounds": rounds})
    return folder


def definitions(work: Work, corpus: str, stage: str) -> pa.Table:
    """The corpus's definitions to train on, sorted by row_id: row_id, anchor, entries.

    Raises: BadInput without any.
    """
    rows = work.inputs["labelled"].table("labelled", ["row_id", "corpus", "anchor", "entries"])
    rows = rows.filter(pc.equal(rows["corpus"], corpus)).drop_columns(["corpus"])
    rows = drop_contaminated(work, rows, "guarded_labelled", stage)
    rows = rows.filter(pc.greater(pc.fill_null(pc.list_value_length(rows["entries"]), 0), 0))
    if not rows.num_rows:
        raise BadInput(
            "no_rows",
            f"{stage}: the corpus {corpus!r} has no definitions with entries: name one of kind "
            "definitions.",
        )
    return rows.sort_by("row_id").combine_chunks()


def _texts(work: Work, ids: Integers) -> list[str]:
    """The texts of these entries; entries whose definitions the guard has all removed become
    rejects.
    """
    entries = work.inputs["entries"].table("entries")
    place = pc.index_in(pa.array(ids, pa.int32()), entries["entry_id"].combine_chunks())
    texts: list[str] = entries["text"].take(place).to_pylist()
    table = work.inputs["labelled"].table("labelled", ["corpus", "entries"])
    table = table.filter(pc.equal(table["corpus"], work.config.corpus))
    all_ids = table["entries"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    lost = np.setdiff1d(all_ids, ids)
    if len(lost):
        gone = entries.filter(pc.is_in(entries["entry_id"], pa.array(lost, pa.int32())))["text"]
        row_ids = pa.array(seeding.text_ids(gone.to_pylist()), pa.uint64())
        why = pa.repeat("all its definitions are texts of evaluation sets", len(gone))
        work.emit("rejects", rejects(STAGE.name, row_ids, "no_definition", why, gone))
    return texts


def _encoded(work: Work, texts: list[str]) -> Any:
    """The definitions' vectors, (definitions, width)."""
    from tercet.models.encoders import encoder

    model, precision = _encoder(work), work.config.precision

    def encoded(some: Sequence[str], tell: Callable[[int], None]) -> Any:
        size = work.resources.batch_size
        vectors = encoder.encode(model, some, size, precision, tell, normalise=False)
        if not np.isfinite(vectors).all():
            raise ValueError("the encoder gives NaN or infinity: its training has diverged")
        return vectors

    return kept_vectors(work, texts, encoded, "definitions")


def _encoder(work: Work) -> Any:
    """The slot's encoder with the entries' pooling, without normalisation.

    Raises: ValueError with one sentence if the pooling does not fit.
    """
    from sentence_transformers.base.modules import Normalize

    config: EntryMatrixConfig = work.config
    try:
        model = load_pooled(work, "encoder", None if config.entries == "words" else config.entries)
    except ValueError:
        # The loader's message is about a pooling, which the recipe may not name.
        _check_transformer(work, load_pooled(work, "encoder"))
        raise
    while isinstance(model[-1], Normalize):
        del model[-1]
    return model


def load_pooled(work: Work, slot: str, pooling: Literal["mean", "cls"] | None = None) -> Any:
    """The slot's encoder with this pooling; None: its own. Raises ValueError with one sentence."""
    from tercet.models.encoders.encoder import load_encoder

    config: EntryMatrixConfig = work.config
    folder, remote = work.models[slot], config.trust_remote_code
    return load_encoder(folder, pooling, config.max_length, work.resources.device, remote)


def _check_transformer(work: Work, model: Any) -> None:
    """Raises ValueError for an encoder without a transformer."""
    if getattr(model[0], "model", None) is None:
        raise ValueError(
            f"entries: {work.config.entries} needs a transformer, and the encoder in "
            f"{work.models['encoder']} has none: name another encoder as its entry_matrix"
        )


def _from_words(work: Work, folder: Path, ids: Integers, texts: list[str]) -> Any:
    """A space whose rows are means of word pieces' embeddings: DefSent's rows (for single words),
    without its frozen masked-LM head.
    """
    from tercet.models.encoders import entry_space

    model = _encoder(work)
    _check_transformer(work, model)
    table = model[0].model.get_input_embeddings().weight.detach().float().cpu().numpy()
    matrix = entry_space.create_space(folder, ids, texts, table.shape[1])
    # A byte-level tokenizer makes the space before a word part of its token.
    lead = " " if model.tokenizer.tokenize(" a")[:1] == ["Ġa"] else ""
    for start in range(0, len(texts), _BLOCK):
        words = [lead + text for text in texts[start : start + _BLOCK]]
        pieces = model.tokenizer(words, add_special_tokens=False)
        for number, piece_ids in enumerate(pieces["input_ids"], start):
            if piece_ids:
                matrix[number] = table[piece_ids].mean(axis=0)
    return matrix


def _emit_shape(
    work: Work, matrix: Any, ids: Integers, texts: list[str], counts: dict[str, int | None]
) -> None:
    """Emits the three tables on the shape of the space."""
    from tercet.models.encoders import entry_space

    key = {"name": work.config.name, "seed": work.config.model_seed}
    shape = entry_space.shape_of(matrix)
    figures = {
        "entries": len(matrix),
        **counts,
        "isotropy": shape.isotropy,
        "mean_cosine": shape.mean_cosine,
        "deviation": shape.deviation,
    }
    defined = {metric: float(value) for metric, value in figures.items() if value is not None}
    rows = [{**key, "metric": metric, "value": value} for metric, value in defined.items()]
    work.emit("entry_spaces", pa.Table.from_pylist(rows, ENTRY_SPACES))
    squares = shape.singular**2
    count = len(squares)
    directions = {
        **_repeated(key, count),
        "direction": np.arange(1, count + 1),
        "singular_value": shape.singular,
        "share": squares / max(squares.sum(), 1e-300),
    }
    work.emit("entry_directions", pa.table(directions).cast(ENTRY_DIRECTIONS))
    draws = seeding.draws(0, "entry points", ids.astype(np.uint64))
    shown = np.sort(np.argsort(draws, kind="stable")[:_POINTS])
    entries = np.asarray(matrix[shown], dtype=np.float64)
    points = _plane(entries, shape.directions)
    around_mean = _plane(entries - shape.mean, shape.components)
    work.emit(
        "entry_points",
        pa.table(
            {
                **_repeated(key, len(shown)),
                "entry_id": ids[shown],
                "text": [texts[row] for row in shown],
                "x": points[:, 0],
                "y": points[:, 1],
                "pca_x": around_mean[:, 0],
                "pca_y": around_mean[:, 1],
            }
        ).cast(ENTRY_POINTS),
    )


def _plane(vectors: Floats, directions: Floats) -> Floats:
    """The vectors' coordinates along the first two directions; 0 without a second one."""
    axes = np.zeros((2, vectors.shape[1]))
    axes[: min(2, len(directions))] = directions[:2]
    return vectors @ axes.T


def _repeated(values: Mapping[str, Any], count: int) -> dict[str, list[Any]]:
    return {column: [value] * count for column, value in values.items()}


STAGE = Stage(
    name="entry_matrix",
    config=EntryMatrixConfig,
    tables={
        "entry_spaces": ENTRY_SPACES,
        "entry_directions": ENTRY_DIRECTIONS,
        "entry_points": ENTRY_POINTS,
    },
    run=run,
    model=True,
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
)
