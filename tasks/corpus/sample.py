"""Stage `sample`: decides by a threshold for each corpus which training sentences are anchors.

`tercet.tasks.corpus.anchors` applies the thresholds.
"""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models import seeding
from tercet.tasks.config import Steers, Wired
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_draws, eligible
from tercet.tasks.stage import BadInput, Config, Stage, Work

ANCHOR_SHARES = pa.schema(
    [
        ("corpus", pa.string()),
        ("role", pa.string()),
        ("sentences", pa.int64()),
        ("anchors", pa.int64()),
    ]
)
"""Table `anchor_shares`. One row per corpus: its number of anchors.

Key: `corpus`.

Columns:
    corpus: the corpus's name in the recipe
    role: `domain` or `general`, as the recipe says
    sentences: sentences that could be anchors
    anchors: sentences that are anchors
"""
# Separate from `anchor_shares`, so that new counts alone do not rerun readers of this table.
ANCHORS = pa.schema(
    [
        ("corpus", pa.string()),
        ("threshold", pa.uint64()),
        ("min_words", pa.int32()),
        ("max_words", pa.int32()),
        ("company", pa.int32()),
    ]
)
"""Table `anchors`. One row per corpus with anchors: the rule by which they are chosen. A sentence
is an anchor if it is in `train`, its length fits, its document has enough other sentences, and its
seeded draw is at most the threshold; no list is kept. With `select.pairing: role`, or `random:`
under `synthesise`, the `random` method makes one candidate for every anchor, so that
`SELECT sentence_id FROM candidates WHERE method = 'random'` lists them (except anchors without
another document with anchors).

Key: `corpus`.

Columns:
    corpus: the corpus's name in the recipe
    threshold: the largest draw that still makes an anchor, as a 64-bit number; the largest such
        number if all sentences are anchors
    min_words: fewest words in an anchor
    max_words: most words in an anchor
    company: least number of other training sentences in its document
"""
ALL = 2**64 - 1


class CorpusShare(Config):
    """A corpus with its weight among the anchors (domain 1 to general 3 in GCSE).

    A labelled corpus has no sentences of its own, and so no share.
    """

    name: str
    role: Literal["domain", "general"] = "domain"
    share: float = Field(default=1.0, gt=0.0)
    min_context_sentences: int | None = Field(default=None, ge=0)


class SampleConfig(Config):
    """How many anchors, of what length, among how many other sentences; and of passages."""

    rows: int | None = Field(
        default=None,
        ge=1,
        description="Anchors in all; by default as many as keep the shares exact (with one "
        "corpus, all)",
    )
    min_words: int = Field(default=1, ge=1, description="Fewest words in an anchor")
    max_words: int = Field(default=1000, ge=1, description="Most words in an anchor")
    min_context_sentences: int = Field(
        default=0,
        ge=0,
        description="Minimum number of other training sentences in the anchor's document; set 1 "
        "where positives come from the document",
    )
    passages: Steers[int | None] = Field(
        default=None,
        ge=1,
        description="Training passages that methods over passages write queries to, a seeded draw; "
        "null: all",
    )
    keep: Steers[str | None] = Field(
        default=None,
        pattern=r"^(tag:|sample@).+$",
        description="An earlier sample, by whose thresholds anchors are chosen: `tag:NAME`, of "
        "that version or of a run, or `sample@VERSION`; all other keys but `passages` are then "
        "those that it was made with; null: a new one whenever the sentences change",
    )
    corpora: Wired[list[CorpusShare]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _consistent(self) -> "SampleConfig":
        if self.min_words > self.max_words:
            raise InvalidSetting("bad_value", "min_words is larger than max_words")
        return self


def anchor_counts(eligible: list[int], shares: list[float], rows: int | None) -> list[int]:
    """The number of anchors of each corpus.

    Args:
        eligible: each corpus's number of eligible sentences.
        shares: each corpus's weight, positive.
        rows: anchors in all; None: the most that keep the weights of corpora with sentences exact.
    """
    if rows is None:
        held = [(count, share) for count, share in zip(eligible, shares, strict=True) if count]
        scale = min((count / share for count, share in held), default=0.0)
    else:
        scale = rows / sum(shares)
    return [min(count, round(scale * share)) for count, share in zip(eligible, shares, strict=True)]


def run(work: Work) -> None:
    """Emits `anchor_shares` and `anchors`, a row a corpus.

    A corpus's threshold is the k-th smallest draw among its eligible sentences.

    Raises:
        BadInput: no sentence can be an anchor.
    """
    config: SampleConfig = work.config
    context = {
        corpus.name: config.min_context_sentences
        if corpus.min_context_sentences is None
        else corpus.min_context_sentences
        for corpus in config.corpora
    }
    draws: dict[str, list[seeding.Ids]] = {corpus.name: [] for corpus in config.corpora}
    # File by file, since no document lies in two files.
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        corpus = table["corpus"].to_numpy()
        drawn = anchor_draws(table, work.seed)
        for name, gathered in draws.items():
            fits = eligible(table, config.min_words, config.max_words, context[name])
            gathered.append(drawn[fits & (corpus == name)])
    held = [np.concatenate(parts) if parts else np.empty(0, np.uint64) for parts in draws.values()]
    counts = [len(values) for values in held]
    anchors = anchor_counts(counts, [corpus.share for corpus in config.corpora], config.rows)
    if not any(anchors):
        names = ", ".join(draws)
        raise BadInput(
            "no_rows",
            f"no training sentence of {names} has {config.min_words} to {config.max_words} words "
            f"and {max(context.values())} others in its document, so there are no anchors: widen "
            "min_words and max_words, lower sample.min_context_sentences, or add text",
        )
    shares = [
        {"corpus": corpus.name, "role": corpus.role, "sentences": count, "anchors": number}
        for corpus, count, number in zip(config.corpora, counts, anchors, strict=True)
    ]
    work.emit("anchor_shares", pa.Table.from_pylist(shares, schema=ANCHOR_SHARES))
    rules = [
        {
            "corpus": name,
            # If all sentences are anchors, all later sentences will be anchors too.
            "threshold": ALL
            if number == len(values)
            else int(np.partition(values, number - 1)[number - 1]),
            "min_words": config.min_words,
            "max_words": config.max_words,
            "company": context[name],
        }
        for name, values, number in zip(draws, held, anchors, strict=True)
        if number
    ]
    work.emit("anchors", pa.Table.from_pylist(rules, schema=ANCHORS))


STAGE = Stage(
    name="sample",
    config=SampleConfig,
    tables={"anchor_shares": ANCHOR_SHARES, "anchors": ANCHORS},
    run=run,
)
