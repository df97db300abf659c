"""Stage `sample`: which training sentences become anchors, corpus by corpus.

An anchor is known by a draw on its id, so that only a threshold a corpus has to be kept: whoever
reads sentences can tell the anchors among them (`anchor_mask`) without a list.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, model_validator

from tercet.models import seeding
from tercet.tasks.sources.corpora import CorpusRole
from tercet.tasks.stage import BadInput, Config, Stage, Work

Flags: TypeAlias = npt.NDArray[np.bool_]

ANCHOR_SHARES = pa.schema(
    [
        ("corpus", pa.string()),
        ("role", pa.string()),
        ("sentences", pa.int64()),
        ("anchors", pa.int64()),
        ("threshold", pa.uint64()),
        ("min_words", pa.int32()),
        ("max_words", pa.int32()),
    ]
)
_COLUMNS = ["sentence_id", "corpus", "n_words", "split"]
_PURPOSE = "anchor"


class CorpusShare(Config):
    """A corpus with its weight among the anchors (domain 1 to general 3 in GCSE)."""

    name: str
    role: CorpusRole = "domain"
    share: float = Field(default=1.0, gt=0.0)


class SampleSettings(Config):
    """How many anchors, of what length.

    rows: anchors in all; a corpus that has too few sentences gives them all. Left out: as many as
        keep the shares exact, i.e. all sentences where there is one corpus.
    min_words, max_words: bounds of an anchor's length in words, both included.
    """

    rows: int | None = Field(default=None, ge=1)
    min_words: int = Field(default=1, ge=1)
    max_words: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> "SampleSettings":
        if self.min_words > self.max_words:
            raise ValueError("min_words is larger than max_words")
        return self


class SampleConfig(SampleSettings):
    """And the corpora to draw from, with their shares; others give no anchor."""

    corpora: list[CorpusShare] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "SampleConfig":
        names = [corpus.name for corpus in self.corpora]
        if len(set(names)) < len(names):
            raise ValueError("a corpus stands twice")
        return self


def wanted(eligible: list[int], shares: list[float], rows: int | None) -> list[int]:
    """Anchors to take of each corpus.

    Args:
        eligible: sentences that each corpus has.
        shares: their weights, positive.
        rows: anchors in all; None: as many as keep the weights among the corpora that have any.
    """
    if rows is None:
        held = [(count, share) for count, share in zip(eligible, shares, strict=True) if count]
        scale = min((count / share for count, share in held), default=0.0)
    else:
        scale = rows / sum(shares)
    return [min(count, round(scale * share)) for count, share in zip(eligible, shares, strict=True)]


def anchor_mask(sentences: pa.Table, shares: pa.Table, seed: int) -> Flags:
    """Which sentences are anchors. Shape (rows,).

    Args:
        sentences: with sentence_id, corpus, n_words and split.
        shares: the table `anchor_shares`.
        seed: the recipe's, as the stage `sample` had it.
    """
    ids = sentences["sentence_id"].to_numpy()
    words = sentences["n_words"].to_numpy()
    corpus = np.asarray(sentences["corpus"].to_pylist(), dtype=object)
    draw = seeding.draws(seed, _PURPOSE, ids)
    mask = np.zeros(len(ids), dtype=np.bool_)
    for share in shares.to_pylist():
        if share["anchors"]:
            fits = (words >= share["min_words"]) & (words <= share["max_words"])
            below = draw <= np.uint64(share["threshold"])
            mask |= (corpus == share["corpus"]) & fits & below
    return np.asarray(mask & (np.asarray(sentences["split"].to_pylist()) == "train"))


def run(work: Work) -> None:
    """Emit `anchor_shares`, a row a corpus: its eligible sentences, its anchors, its threshold.

    A corpus's threshold is the k-th smallest draw among its train sentences of fitting length.

    Raises:
        BadInput: no sentence can be an anchor.
    """
    config: SampleConfig = work.config
    draws: dict[str, list[seeding.Ids]] = {corpus.name: [] for corpus in config.corpora}
    for batch in work.inputs["sentences"].batches("sentences", columns=_COLUMNS):
        table = pa.Table.from_batches([batch])
        words = table["n_words"].to_numpy()
        corpus = np.asarray(table["corpus"].to_pylist(), dtype=object)
        fits = (words >= config.min_words) & (words <= config.max_words)
        fits &= np.asarray(table["split"].to_pylist()) == "train"
        drawn = seeding.draws(work.seed, _PURPOSE, table["sentence_id"].to_numpy())
        for name, gathered in draws.items():
            gathered.append(drawn[fits & (corpus == name)])
    held = [np.concatenate(parts) if parts else np.empty(0, np.uint64) for parts in draws.values()]
    eligible = [len(values) for values in held]
    anchors = wanted(eligible, [corpus.share for corpus in config.corpora], config.rows)
    if not any(anchors):
        names = ", ".join(draws)
        raise BadInput(
            f"no training sentence of {names} has {config.min_words} to {config.max_words} words, "
            "so there is no anchor: widen sample.min_words and sample.max_words, or add text"
        )
    thresholds = [
        int(np.partition(values, count - 1)[count - 1]) if count else 0
        for values, count in zip(held, anchors, strict=True)
    ]
    columns = [
        [corpus.name for corpus in config.corpora],
        [corpus.role for corpus in config.corpora],
        eligible,
        anchors,
        thresholds,
        [config.min_words] * len(eligible),
        [config.max_words] * len(eligible),
    ]
    work.emit("anchor_shares", pa.table(columns, schema=ANCHOR_SHARES))


STAGE = Stage(name="sample", config=SampleConfig, tables={"anchor_shares": ANCHOR_SHARES}, run=run)
