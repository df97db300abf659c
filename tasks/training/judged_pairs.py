"""Labelled pairs for a discriminator, which learns whether the second text follows from the first.

A labelled row gives one or two pairs: anchor and positive are true, anchor and negative false.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models import seeding
from tercet.models.seeding import sample
from tercet.tasks.corpus.held_out import same_words
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Config, Work, connection
from tercet.tasks.training.training_rows import drop_contaminated

# row_id: the digest of both texts. true: whether the text follows from the anchor.
JUDGED = pa.schema(
    [
        ("row_id", pa.uint64()),
        ("corpus", pa.string()),
        ("anchor", pa.string()),
        ("text", pa.string()),
        ("true", pa.bool_()),
    ]
)
AMBIGUOUS = "ambiguous"
# The reason of a dev pair whose anchor is also learnt from.
KNOWN = "known_anchor"


class JudgedConfig(Config):
    """How many pairs are fitted to, and which anchors are held out."""

    corpora: tuple[str, ...] = Field(
        default=(), description="Labelled ones, by name; empty: all labelled ones."
    )
    dev: tuple[str, ...] = Field(
        default=(),
        description="Labelled corpora that are held out whole, so that all anchors of the others "
        "are learnt from; empty: shares of the anchors are held out.",
    )
    max_rows: int | None = Field(
        default=None, ge=10, description="A seeded sample of this many pairs to fit to; null: all."
    )
    validation: float = Field(
        default=0.1,
        gt=0.0,
        lt=1.0,
        description="Share of the anchors that are held out to choose and to calibrate by; of "
        "those of dev, in proportion to test.",
    )
    test: float = Field(
        default=0.1, gt=0.0, lt=1.0, description="Share of the anchors that are held out to report."
    )
    max_held_out: int = Field(
        default=5_000,
        ge=10,
        description="Most pairs of each of the two held-out parts, drawn by seed.",
    )

    @model_validator(mode="after")
    def _some_left(self) -> "JudgedConfig":
        if self.validation + self.test >= 1.0:
            raise InvalidSetting(
                "bad_value", "validation and test hold out every anchor: lower one of them"
            )
        return self


class Judged(NamedTuple):
    """Pairs (`JUDGED`) by use; no anchor is in two of the tables."""

    fit: pa.Table
    validation: pa.Table
    test: pa.Table


def read_judged(work: Work, config: JudgedConfig, stage: str) -> Judged:
    """The distinct pairs of these labelled corpora, sorted by row_id.

    An anchor's part depends only on its words and the seed, so that different spellings stay
    together. With `config.dev`, the pairs of those corpora are held out and all other pairs are
    fitted to. Rejects: pairs of dev whose anchor is fitted to, and pairs that are true in one row
    and false in another. Texts that the guard has found in an evaluation set are left out.

    stage: begins messages.
    Raises: BadInput if a part has no true or no false pair, or if one of several corpora has only
        true or only false pairs, since the model would learn to tell the corpora apart.
    """
    columns = ["corpus", "anchor", "positive", "negative"]
    rows = work.inputs["labelled"].table("labelled", columns)

    def read(names: Sequence[str]) -> pa.Table:
        chosen = rows.filter(pc.is_in(rows["corpus"], pa.array(names, pa.string())))
        chosen = drop_contaminated(work, chosen, "guarded_labelled", stage)
        pairs = _pairs(work, chosen, stage)
        _check_corpora(pairs, stage)
        return pairs

    pairs = read(config.corpora)
    held_out = _without_known(work, read(config.dev), pairs, stage) if config.dev else pairs
    draws = seeding.uniforms(work.seed, "judged anchors", held_out["anchor_id"].to_numpy())
    test, both = config.test, config.test + config.validation
    if config.dev:
        test, both = test / both, 1.0
    cuts = {"validation": (draws >= test) & (draws < both), "test": draws < test}
    source = dict.fromkeys(cuts, held_out) | {"fit": pairs}
    fit = pairs if config.dev else pairs.filter(pa.array(draws >= both))
    parts = {"fit": fit} | {name: held_out.filter(pa.array(cut)) for name, cut in cuts.items()}
    parts = {name: part.select(JUDGED.names) for name, part in parts.items()}
    most = {"fit": config.max_rows, **dict.fromkeys(("validation", "test"), config.max_held_out)}
    for name, part in parts.items():
        some = sample(part, "row_id", most[name], work.seed, "judged pairs")
        parts[name] = some.combine_chunks()
    for name, part in parts.items():
        true = pc.sum(part["true"]).as_py() or 0
        if not true or true == part.num_rows:
            raise BadInput(
                "no_rows", f"{stage}: {_lacking(name, source[name], part.num_rows, true)}."
            )
    return Judged(**parts)


def _without_known(work: Work, dev: pa.Table, pairs: pa.Table, stage: str) -> pa.Table:
    """The pairs of dev whose anchor is not in `pairs`; the rest become rejects."""
    is_known = pc.is_in(dev["anchor_id"], pairs["anchor_id"].combine_chunks())
    lost = dev.filter(is_known)
    if lost.num_rows:
        detail = "its anchor is among those that are learnt from"
        work.emit(
            "rejects", rejects(_name(work, stage), lost["row_id"], KNOWN, detail, lost["text"])
        )
    return dev.filter(pc.invert(is_known))


def _name(work: Work, stage: str) -> str:
    return work.stage or stage.split(":")[0]


def _check_corpora(pairs: pa.Table, stage: str) -> None:
    shares = pairs.group_by("corpus").aggregate([("true", "min"), ("true", "max")])
    one_sided = [row for row in shares.to_pylist() if row["true_min"] == row["true_max"]]
    if one_sided and len(one_sided) < shares.num_rows:
        row = min(one_sided, key=lambda one: one["corpus"])
        raise BadInput(
            "no_rows",
            f"{stage}: every pair of the corpus {row['corpus']!r} is "
            f"{'true' if row['true_max'] else 'false'}, and other corpora have both kinds: a judge "
            "would learn to tell the corpora apart; name the others alone under corpora.",
        )


def labels_of(pairs: pa.Table) -> npt.NDArray[np.int64]:
    """1 for each true pair, 0 for each false one."""
    return np.asarray(pairs["true"].to_numpy(zero_copy_only=False), dtype=np.int64)


def _pairs(work: Work, rows: pa.Table, stage: str) -> pa.Table:
    """Distinct pairs with `anchor_id`; pairs that are both true and false become rejects."""
    with connection(work) as db:
        db.register("rows", rows)
        for side in ("positive", "negative"):
            db.execute(
                f"""CREATE TEMP VIEW {side}s AS SELECT corpus, anchor, {side} AS text,
                    {side == "positive"} AS "true" FROM rows WHERE {side} IS NOT NULL"""
            )
        pairs = db.sql(
            f"""SELECT md5_number_lower(anchor || chr(31) || text) AS row_id,
                min(corpus) AS corpus, anchor, text, bool_and("true") AS "true",
                md5_number_lower({same_words("anchor")}) AS anchor_id,
                bool_or("true") <> bool_and("true") AS {AMBIGUOUS}
            FROM (SELECT * FROM positives UNION ALL SELECT * FROM negatives)
            GROUP BY anchor, text ORDER BY row_id"""
        ).to_arrow_table()
    both = pairs[AMBIGUOUS]
    if pc.any(both).as_py():
        lost = pairs.filter(both)
        detail = "the same two texts stand as true and as false"
        name = _name(work, stage)
        work.emit("rejects", rejects(name, lost["row_id"], AMBIGUOUS, detail, lost["text"]))
    with_id = JUDGED.append(pa.field("anchor_id", pa.uint64()))
    return pairs.filter(pc.invert(both)).select(with_id.names).cast(with_id).combine_chunks()


def _lacking(name: str, pairs: pa.Table, rows: int, true: int) -> str:
    """The message for a part that lacks true or false pairs."""
    in_all = pc.sum(pairs["true"]).as_py() or 0
    for count, kind, label in (
        (in_all, "entailments", "true"),
        (pairs.num_rows - in_all, "contradictions", "false"),
    ):
        if not count:
            return (
                f"none of the {pairs.num_rows} labelled pairs is {label}: name a corpus with "
                f"{kind} (kind: entailment, or triplets with a negative)"
            )
    held = "left to fit to" if name == "fit" else f"held out for {name}"
    return (
        f"of {pairs.num_rows} labelled pairs {rows} are {held}, {true} of them true, and both true "
        "and false ones are needed: give more pairs, or other shares `validation` and `test`"
    )
