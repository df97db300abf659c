"""Pairs of source and target to fit a generator to, and held-out pairs to choose a step by."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models import seeding
from tercet.models.seeding import sample
from tercet.storage.rows import quoted
from tercet.tasks.config import Wired
from tercet.tasks.stage import BadInput, Config, Work, connection
from tercet.tasks.training.training_rows import drop_contaminated

_HELD_OUT = "generator validation"
# A label for all scored corpora, or labels by corpus.
Above: TypeAlias = float | dict[str, float]


class PairsConfig(Config):
    """Which rows of which corpora become pairs.

    labelled, sentences: the corpora that give pairs, and those that give sentences; the compiler
    fills both in.
    """

    labelled: Wired[tuple[str, ...]] = ()
    sentences: Wired[tuple[str, ...]] = ()

    corpora: tuple[str, ...] = Field(default=(), description="By name; empty: all labelled ones.")
    above: Above | None = Field(
        default=None,
        description="Of scored corpora only rows with a label above this, or above a number of "
        "each by its name; in the paper 3 of SICK's relatedness, and MRPC's label 1.",
    )
    unsupervised: bool = Field(
        default=False,
        description="Each text is its own target. Always so for corpora without labelled pairs.",
    )
    max_rows: int | None = Field(
        default=None, ge=2, description="A seeded sample of this many pairs."
    )
    validation: float = Field(
        default=1 / 13,
        gt=0.0,
        lt=1.0,
        description="Share of the sources that are held out to choose the checkpoint by; 1 in 13 "
        "in the paper.",
    )
    max_validation: int = Field(
        default=256, ge=1, description="Held-out pairs that are answered, drawn by seed."
    )


def read_pairs(work: Work, config: PairsConfig, stage: str) -> tuple[pa.Table, pa.Table]:
    """Two tables of row_id (uint64), source and target: to fit to, and held out.

    All pairs of a source are on the same side, by its text and the seed. Texts that the guard has
    found in an evaluation set are left out. Raises BadInput if a table is empty.
    """
    rows = pa.concat_tables([*_labelled(work, config, stage), *_sentences(work, config)])
    if not rows.num_rows:
        raise BadInput(
            "no_rows",
            f"{stage}: there are no pairs to fit to: check the corpora that pairs names, and what "
            "ingest refused.",
        )
    ids = pa.array(seeding.text_ids(rows["anchor"].to_pylist(), rows["positive"].to_pylist()))
    pairs = pa.table({"row_id": ids, "source": rows["anchor"], "target": rows["positive"]})
    _, first = np.unique(ids.to_numpy(), return_index=True)
    pairs = pairs.take(pa.array(first))
    pairs = sample(pairs, "row_id", config.max_rows, work.seed, "generator pairs sample")
    sources = seeding.text_ids(pairs["source"].to_pylist())
    held = seeding.uniforms(work.seed, _HELD_OUT, sources) < config.validation
    rows, held_out = pairs.filter(pa.array(~held)), pairs.filter(pa.array(held))
    if not rows.num_rows or not held_out.num_rows:
        raise BadInput(
            "no_rows",
            f"{stage}: of {pairs.num_rows} pairs {held_out.num_rows} are held out and "
            f"{rows.num_rows} are left to fit to: give more pairs, or another pairs.validation.",
        )
    most = config.max_validation
    return rows, sample(held_out, "row_id", most, work.seed, f"{_HELD_OUT} sample")


def paraphrases(
    labelled: pa.Table, corpora: Sequence[str], above: Above | None, stage: str
) -> pa.Table:
    """The rows of these corpora whose positive is a paraphrase of the anchor.

    labelled: has corpus, kind, positive and label. above: scored rows need a higher label; None, or
    a corpus that it does not name: all rows. stage: begins messages. Raises BadInput for a corpus
    without such a row.
    """
    table = labelled.filter(pc.is_in(labelled["corpus"], pa.array(corpora, pa.string())))
    table = table.filter(pc.is_valid(table["positive"]))
    for name in corpora:
        least = least_of(above, name)
        if least is not None:
            other = (pc.field("corpus") != name) | (pc.field("kind") != "scored")
            table = table.filter(other | (pc.field("label") > least))
    left = set(table["corpus"].unique().to_pylist())
    if empty := next((name for name in corpora if name not in left), None):
        least = least_of(above, empty)
        scored = (pc.field("corpus") == empty) & (pc.field("kind") == "scored")
        if least is not None and labelled.filter(scored).num_rows:
            reason = f"no row of the corpus {empty} has a label above {least:g}: lower above"
        else:
            reason = (
                f"the corpus {empty} has no pairs: look at why its rows were refused (SELECT "
                "reason, count(*) FROM rejects GROUP BY reason)"
            )
        raise BadInput("unfit_model", f"{stage}: {reason}.")
    return table


def least_of(above: Above | None, corpus: str) -> float | None:
    """The label above which a scored corpus's rows are taken; None: all rows."""
    return above.get(corpus) if isinstance(above, Mapping) else above


def _labelled(work: Work, config: PairsConfig, stage: str) -> list[pa.Table]:
    if not config.labelled:
        return []
    table = work.inputs["labelled"].table(
        "labelled", ["corpus", "kind", "anchor", "positive", "label"]
    )
    table = paraphrases(table, config.labelled, config.above, stage).select(["anchor", "positive"])
    table = drop_contaminated(work, table, "guarded_labelled", work.stage or "fit_generator")
    if not config.unsupervised:
        return [table]
    return [_own_targets(table[name]) for name in table.column_names]


def _sentences(work: Work, config: PairsConfig) -> list[pa.Table]:
    """The sentences of the train split, each its own target."""
    if not config.sentences:
        return []
    with connection(work) as db:
        texts = db.sql(
            f"""SELECT text FROM {work.inputs["sentences"].sql("sentences")}
                WHERE split = 'train' AND corpus IN ({", ".join(map(quoted, config.sentences))})"""
        ).to_arrow_table()
    rows = _own_targets(texts["text"])
    return [drop_contaminated(work, rows, "guarded_sentences", work.stage or "fit_generator")]


def _own_targets(texts: pa.ChunkedArray) -> pa.Table:
    return pa.table({"anchor": texts, "positive": texts})
