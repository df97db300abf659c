"""Stage `sample`: which training sentences become anchors, corpus by corpus.

An anchor is known by a draw on its id, so that only a threshold a corpus has to be kept: whoever
reads sentences can tell the anchors among them (`anchor_mask`) without a list.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from tercet.models import seeding
from tercet.tasks.corpus.sources.corpora import CorpusRole
from tercet.tasks.stage import BadInput, Config, Stage, Work

Flags: TypeAlias = npt.NDArray[np.bool_]

ANCHOR_SHARES = pa.schema(
    [
        ("corpus", pa.string()),
        ("role", pa.string()),
        ("sentences", pa.int64()),
        ("anchors", pa.int64()),
    ]
)
# Apart from the counts: what reads this is made anew only when a sentence's lot may change.
ANCHORS = pa.schema(
    [
        ("corpus", pa.string()),
        ("threshold", pa.uint64()),
        ("min_words", pa.int32()),
        ("max_words", pa.int32()),
        ("company", pa.int32()),
    ]
)
ALL = 2**64 - 1
ANCHOR_COLUMNS = ("sentence_id", "corpus", "doc_id", "n_words", "split")
_PURPOSE = "anchor"


class CorpusShare(Config):
    """A corpus with its weight among the anchors (domain 1 to general 3 in GCSE)."""

    name: str
    role: CorpusRole = "domain"
    share: float = Field(default=1.0, gt=0.0)


class SampleSettings(Config):
    """How many anchors, of what length, in what company.

    rows: anchors in all; a corpus that has too few sentences gives them all. Left out: as many as
        keep the shares exact, i.e. all sentences where there is one corpus.
    min_words, max_words: bounds of an anchor's length in words, both included.
    company: other training sentences that an anchor's document must have at least; 1 where the
        positives are to come out of the same document.
    """

    rows: int | None = Field(default=None, ge=1)
    min_words: int = Field(default=1, ge=1)
    max_words: int = Field(default=1000, ge=1)
    company: int = Field(default=0, ge=0)

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


def anchor_mask(sentences: pa.Table, anchors: pa.Table, seed: int) -> Flags:
    """Which sentences are anchors. Shape (rows,).

    Args:
        sentences: whole documents, with `ANCHOR_COLUMNS`.
        anchors: the table `anchors`; a corpus without a row has no anchor.
        seed: the recipe's, as the stage `sample` had it.
    """
    corpus = _strings(sentences["corpus"])
    draw = seeding.draws(seed, _PURPOSE, sentences["sentence_id"].to_numpy())
    mask = np.zeros(len(sentences), dtype=np.bool_)
    for row in anchors.to_pylist():
        fits = _eligible(sentences, row["min_words"], row["max_words"], row["company"])
        mask |= (corpus == row["corpus"]) & fits & (draw <= np.uint64(row["threshold"]))
    return mask


def _eligible(sentences: pa.Table, min_words: int, max_words: int, company: int) -> Flags:
    """Training sentences of fitting length and company; `sentences` are whole documents."""
    words = sentences["n_words"].to_numpy()
    fits = (words >= min_words) & (words <= max_words)
    train = _strings(sentences["split"]) == "train"
    if company:
        docs = sentences["doc_id"].to_numpy()
        _, of, counts = np.unique(docs[train], return_inverse=True, return_counts=True)
        fits[train] &= counts[of] > company
    return np.asarray(fits & train)


def _strings(column: pa.ChunkedArray) -> npt.NDArray[np.object_]:
    return np.asarray(column.to_pylist(), dtype=object)


def run(work: Work) -> None:
    """Emit `anchor_shares` (how many) and `anchors` (which), a row a corpus.

    A corpus's threshold is the k-th smallest draw among its eligible sentences.

    Raises:
        BadInput: no sentence can be an anchor.
    """
    config: SampleConfig = work.config
    draws: dict[str, list[seeding.Ids]] = {corpus.name: [] for corpus in config.corpora}
    # File by file: no document lies in two of them.
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        corpus = _strings(table["corpus"])
        fits = _eligible(table, config.min_words, config.max_words, config.company)
        drawn = seeding.draws(work.seed, _PURPOSE, table["sentence_id"].to_numpy())
        for name, gathered in draws.items():
            gathered.append(drawn[fits & (corpus == name)])
    held = [np.concatenate(parts) if parts else np.empty(0, np.uint64) for parts in draws.values()]
    eligible = [len(values) for values in held]
    anchors = wanted(eligible, [corpus.share for corpus in config.corpora], config.rows)
    if not any(anchors):
        names = ", ".join(draws)
        raise BadInput(
            f"no training sentence of {names} has {config.min_words} to {config.max_words} words "
            f"and {config.company} others in its document, so there is no anchor: widen "
            "sample.min_words and sample.max_words, lower sample.company, or add text"
        )
    corpora = [(c.name, c.role) for c in config.corpora]
    counts = [
        {"corpus": name, "role": role, "sentences": count, "anchors": taken}
        for (name, role), count, taken in zip(corpora, eligible, anchors, strict=True)
    ]
    work.emit("anchor_shares", pa.Table.from_pylist(counts, schema=ANCHOR_SHARES))
    rules = [
        {
            "corpus": name,
            # All of them stay anchors when more come.
            "threshold": ALL
            if taken == len(values)
            else int(np.partition(values, taken - 1)[taken - 1]),
            "min_words": config.min_words,
            "max_words": config.max_words,
            "company": config.company,
        }
        for (name, _), values, taken in zip(corpora, held, anchors, strict=True)
        if taken
    ]
    work.emit("anchors", pa.Table.from_pylist(rules, schema=ANCHORS))


STAGE = Stage(
    name="sample",
    config=SampleConfig,
    tables={"anchor_shares": ANCHOR_SHARES, "anchors": ANCHORS},
    run=run,
)
