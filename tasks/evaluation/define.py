"""Stage `define`: how well held-out definitions find their entries.

A trained encoder finds entries in two ways: by its projection onto the entries it was trained
against, and by cosine with entries that it encodes itself. There are two controls: by cosine, the
encoder that made the entries of the training; and TF-IDF over each entry's definitions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.errors import kind_of
from tercet.models.measures import resampling
from tercet.models.measures.reverse_dictionary import Ranks, Scores, figures, ranks
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Stage, Work
from tercet.tasks.training.entry_matrix import EntryMatrixConfig, definitions, load_pooled

DEFINITION_FIGURES = pa.schema(
    [
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("arm", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("n", pa.int64()),
    ]
)
"""Table `definition_figures`. How well held-out definitions find their entries (`define.PHASE`).

Key: `name`, `seed`, `arm`, `metric`.

Columns:
    name: as in `entry_spaces`
    seed: the seed of the training
    arm: `projection`: by the trained projection, onto the entries it was trained against;
        `own_entries`: by cosine with the entries that the trained encoder makes; `before`: by
        cosine with the encoder that made the former entries; `words`: TF-IDF
    metric: `recall@1`, `recall@10` and `mrr` in percent, `median_rank`; `…_gain`: the arm's minus
        that of `before`
    value: the figure
    ci_low: lower end of its 95 % interval, drawn over definitions, paired for a gain; NULL for
        `median_rank`, and of fewer than 20 definitions
    ci_high: its upper end
    n: definitions
"""
DEFINITION_RANKS = pa.schema(
    [
        ("name", pa.string()),
        ("seed", pa.int64()),
        ("arm", pa.string()),
        ("row_id", pa.uint64()),
        ("rank", pa.float64()),
    ]
)
"""Table `definition_ranks`. The ranks behind them.

Key: `name`, `seed`, `arm`, `row_id`.

Columns:
    name: as in `entry_spaces`
    seed: as in `definition_figures`
    arm: as in `definition_figures`
    row_id: → `held_out_definitions.row_id`
    rank: of the best of its own entries among all, from 1; the expected one where entries tie
"""

PROJECTION, OWN_ENTRIES, BEFORE, WORDS = "projection", "own_entries", "before", "words"
_RESAMPLES = 2_000
# Entries whose lengths are computed at once.
_BLOCK = 16_384
# With fewer definitions the resamples are too much alike for an interval.
_FEWEST = 20

# From some definitions, by their places, to their scores with all entries.
Scorer = Callable[[slice], Scores]


class DefineConfig(EntryMatrixConfig):
    """The entries that a part of a phase was trained against, and how the encoder makes its own."""

    part: str
    own: Literal["mean", "cls"] = Field(
        default="mean", description="The pooling of the trained encoder's own entries."
    )
    model_seed: int | None = Field(
        default=None, description="Of the training; null: that of the run."
    )


def run(work: Work) -> None:
    """Emits both tables; if no definition of the corpus is held out, a reject says so.

    Models: `trained`, the encoder with its projection; `entry_matrix`, against which it was
    trained; `encoder`, which made the entry matrix; `own_entries`, made by the trained encoder.
    """
    from tercet.models.encoders.entry_space import read_space

    config: DefineConfig = work.config
    space = read_space(work.models["entry_matrix"])
    held = _held_out(work, {entry: row for row, entry in enumerate(space.entry_ids.tolist())})
    if not held:
        why = f"no definition of {config.corpus} is left to measure by"
        work.emit("rejects", rejects(STAGE.name, [None], "no_held_out", why, None))
        return
    ids, texts, owners = zip(*held, strict=True)
    vectors = _encode(work, "trained", texts)
    own_space = read_space(work.models["own_entries"])
    assert own_space.texts == space.texts, "both are made of the same definitions"
    arms: dict[str, Scorer] = {
        PROJECTION: _by_projection(work, vectors, space.matrix.numpy()),
        OWN_ENTRIES: by_cosine(
            _encode(work, "trained", texts, config.own), own_space.matrix.numpy()
        ),
    }
    # Independent components and word embeddings are not sentence vectors.
    if config.entries != "words" and config.ica is None:
        before = _encode(work, "encoder", texts, config.entries)
        arms[BEFORE] = by_cosine(before, space.matrix.numpy())
    by_words = _by_words(work, texts, space.entry_ids.tolist())
    arms |= {} if by_words is None else {WORDS: by_words}
    shared = {
        "name": config.name,
        "seed": work.seed if config.model_seed is None else config.model_seed,
    }
    try:
        ranks_by_arm = {arm: ranks(scores, owners) for arm, scores in arms.items()}
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"define: {config.name}: {error}") from error
    rows = [{**shared, "n": len(held), **row} for row in _figures(ranks_by_arm, work.seed)]
    work.emit("definition_figures", pa.Table.from_pylist(rows, DEFINITION_FIGURES))
    for arm, places in ranks_by_arm.items():
        ranked = [
            {**shared, "arm": arm, "row_id": row_id, "rank": rank}
            for row_id, rank in zip(ids, places.expected().tolist(), strict=True)
        ]
        work.emit("definition_ranks", pa.Table.from_pylist(ranked, DEFINITION_RANKS))


def _held_out(work: Work, place: dict[int, int]) -> list[tuple[int, str, list[int]]]:
    """The ids and texts of the held-out definitions, each with the rows of its entries.

    place: each entry's row. An entry has none if the guard removed all its other definitions.
    """
    table = work.inputs["held_out_definitions"].table("held_out_definitions")
    table = table.filter(pc.equal(table["corpus"], work.config.corpus)).sort_by("row_id")
    held = []
    for row in table.to_pylist():
        places = [place[entry] for entry in row["entries"] if entry in place]
        if places:
            held.append((row["row_id"], row["anchor"], places))
    lost = table.num_rows - len(held)
    if lost:
        why = f"the guard has taken all entries of {lost:,} held-out definitions of "
        why += work.config.corpus
        work.emit("rejects", rejects(STAGE.name, [None], "no_entry", why, None))
    return held


def _by_projection(work: Work, vectors: Any, matrix: Any) -> Scorer:
    import torch

    from tercet.models.losses.definition import projection_file, read_projection

    file = projection_file(work.models["trained"], work.config.part)
    assert file is not None, "a phase with the loss definition leaves its projection"
    with torch.no_grad():
        projected = read_projection(file)(torch.from_numpy(vectors)).numpy()
    return lambda some: projected[some] @ matrix.T


def by_cosine(vectors: Any, matrix: Any) -> Scorer:
    """Scores with all entries; the lengths of the definitions' vectors change no order."""
    lengths = np.concatenate(
        [np.linalg.norm(matrix[i : i + _BLOCK], axis=1) for i in range(0, len(matrix), _BLOCK)]
    )
    return lambda some: (vectors[some] @ matrix.T) / np.maximum(lengths, 1e-12)


def _encode(work: Work, slot: str, texts: Sequence[str], pooling: Any = None) -> Any:
    """The texts' vectors as the model gives them, (texts, width)."""
    from tercet.models.encoders.encoder import encode

    model, size = load_pooled(work, slot, pooling), work.resources.batch_size
    return encode(model, list(texts), size, work.config.precision, normalise=False)


def _by_words(work: Work, texts: Sequence[str], entry_ids: Sequence[int]) -> Scorer | None:
    """A scorer of definitions by their words; None if no definition has a word."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts_of: dict[int, list[str]] = {entry: [] for entry in entry_ids}
    for row in definitions(work, work.config.corpus, STAGE.name).to_pylist():
        for entry in row["entries"]:
            texts_of[entry].append(row["anchor"])
    words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", dtype=np.float32)
    try:
        documents = words.fit_transform(
            [" ".join(entry_texts) for entry_texts in texts_of.values()]
        ).T.tocsc()
    except ValueError:  # an empty vocabulary
        return None
    queries = words.transform(texts)
    return lambda some: np.asarray((queries[some] @ documents).todense())


def _figures(ranks_by_arm: dict[str, Ranks], seed: int) -> list[dict[str, Any]]:
    """Rows without name, seed and n. An arm's `…_gain` is over the arm `before`, if any."""
    rows: list[dict[str, Any]] = []
    drawn: dict[tuple[str, str], resampling.Sampled] = {}
    for arm, arm_ranks in ranks_by_arm.items():
        for metric, figure in figures(arm_ranks).items():
            if isinstance(figure, float):
                rows.append({"arm": arm, "metric": metric, "value": figure})
                continue
            drawn[arm, metric] = resampling.sampled(figure, len(arm_ranks.higher), _RESAMPLES, seed)
            rows.append(
                _row(arm, metric, resampling.interval(drawn[arm, metric]), len(arm_ranks.higher))
            )
    for (arm, metric), after in drawn.items():
        if arm != BEFORE and BEFORE in ranks_by_arm:
            gain = resampling.paired_test(after, drawn[BEFORE, metric])
            rows.append(_row(arm, f"{metric}_gain", gain, len(ranks_by_arm[arm].higher)))
    return rows


def _row(arm: str, metric: str, figure: resampling.Interval, count: int) -> dict[str, Any]:
    enough = count >= _FEWEST
    ends = {"ci_low": figure.low if enough else None, "ci_high": figure.high if enough else None}
    return {"arm": arm, "metric": metric, "value": figure.value, **ends}


STAGE = Stage(
    name="define",
    config=DefineConfig,
    tables={"definition_figures": DEFINITION_FIGURES, "definition_ranks": DEFINITION_RANKS},
    run=run,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
)
