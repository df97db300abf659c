"""Stage `guard`: texts of the evaluation sets among those that are to be trained on.

Every distinct sentence of the tasks that the recipe is measured on, of dev and of test, is looked
for in each training text, by its letters, by its words, by its word n-grams and by its vector. For
each text and task the surest of these levels is told. The stage reads texts in batches; what it
keeps of them all are the ids of those found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text import overlap
from tercet.models.text.overlap import Matches
from tercet.tasks.corpus.sources.triplet_file import file_triplets
from tercet.tasks.guarding.sentences import (
    GuardConfig,
    GuardSettings,
    Sentences,
    externals,
    sentences_of,
)
from tercet.tasks.guarding.vectors import by_shortlist, by_stored, stored_matches
from tercet.tasks.stage import REJECTS, Stage, Work

__all__ = ["SENTENCES", "TRIPLETS", "GuardConfig", "GuardSettings"]

CONTAMINATION = pa.schema(
    [
        ("text_id", pa.uint64()),
        ("text", pa.string()),
        ("suite", pa.string()),
        ("task", pa.string()),
        ("level", pa.string()),
        ("score", pa.float64()),
        ("evaluation_text", pa.string()),
        ("removed", pa.bool_()),
    ]
)

LEVELS = ("exact", "near", "ngram", "embedding")
EXACT, NEAR, NGRAM, EMBEDDING = range(4)
BATCH = 16_384


@dataclass(frozen=True)
class Looking:
    """What batches of texts are compared with. stored: what their stored vectors have told."""

    config: GuardConfig
    sentences: Sentences
    work: Work
    stored: tuple[Ids, Matches] | None = None


def run(work: Work) -> None:
    """Emits `contamination`, and as rejects the rows that must not be trained on."""
    config: GuardConfig = work.config
    sentences = sentences_of(config)
    stored = None
    if "embeddings" in work.inputs and config.embedding_min is not None:
        stored = stored_matches(work, config, sentences)
    looking = Looking(config, sentences, work, stored)
    told, done = np.empty(0, dtype=np.uint64), 0
    for row_ids, columns in _rows(work):
        texts = pa.chunked_array(columns).unique()
        found = _found(looking, texts)
        done += len(row_ids)
        work.resources.progress(done, None, "rows")
        if not found.num_rows:
            continue
        # A text that several batches hold is told once.
        new = ~np.isin(found["text_id"].to_numpy(), told)
        told = np.union1d(told, found["text_id"].to_numpy())
        work.emit("contamination", found.filter(pa.array(new)).select(CONTAMINATION.names))
        if config.action == "remove":
            work.emit("rejects", _rejects(row_ids, columns, found))


def _rows(work: Work) -> Iterator[tuple[pa.Array, list[pa.Array]]]:
    """Batches of training rows: their ids, and the columns of their texts."""
    config: GuardConfig = work.config
    if config.triplets is not None:
        rows, _ = file_triplets(Path(config.triplets))
        columns = ["row_id", "anchor", "positive", "negative"]
        for batch in rows.select(columns).to_batches(max_chunksize=BATCH):
            yield batch.column(0), batch.columns[1:]
    elif "triplets" in work.inputs:
        columns = ["triplet_id", "anchor", "positive", "negative"]
        for batch in work.inputs["triplets"].batches("triplets", columns, BATCH):
            yield batch.column(0), batch.columns[1:]
    else:
        columns = ["sentence_id", "text", "split"]
        for batch in work.inputs["sentences"].batches("sentences", columns, BATCH):
            trained = batch.filter(pc.equal(batch.column(2), "train"))
            if trained.num_rows:
                yield trained.column(0), [trained.column(1)]


def _found(looking: Looking, texts: pa.Array) -> pa.Table:
    """Rows of `contamination` with `place`, the number of the text among these, in their order."""
    config, sentences = looking.config, looking.sentences
    words = overlap.words_of(texts)
    index = sentences.index
    shares = index.shares(words)
    levels = [(EXACT, index.exact(words)), (NEAR, index.near(words))]
    if config.ngram is not None:
        levels.append((NGRAM, shares.filter(shares.scores >= config.ngram)))
    if looking.stored is not None:
        levels.append((EMBEDDING, by_stored(texts, *looking.stored)))
    elif config.embedding_min is not None and "encoder" in looking.work.models:
        sure = np.concatenate([matches.rows for _, matches in levels])
        weak = shares.filter((shares.scores >= config.shortlist) & ~np.isin(shares.rows, sure))
        levels.append((EMBEDDING, by_shortlist(looking.work, config, sentences, texts, weak)))
    place, name, level, score, sentence = _surest(sentences, levels)
    kinds = pa.array([kind for kind, _ in sentences.names], pa.string())
    tasks = pa.array([task for _, task in sentences.names], pa.string())
    chosen = texts.take(pa.array(place))
    return pa.table(
        {
            "place": place,
            "text_id": pa.array(seeding.text_ids(chosen.to_pylist()), pa.uint64()),
            "text": chosen,
            "suite": kinds.take(pa.array(name)),
            "task": tasks.take(pa.array(name)),
            "level": pa.array(LEVELS).take(pa.array(level)),
            "score": score,
            "evaluation_text": sentences.texts.take(pa.array(sentence)),
            "removed": pa.repeat(config.action == "remove", len(place)),
        }
    )


def _surest(
    sentences: Sentences, levels: Sequence[tuple[int, Matches]]
) -> tuple[npt.NDArray[Any], ...]:
    """For each text and task the match of the surest level, of the highest score in it.

    Returns: texts, places in `sentences.names`, levels, scores and sentences, in order of texts.
    """
    rows = np.concatenate([matches.rows for _, matches in levels])
    numbers = np.concatenate([matches.sentences for _, matches in levels])
    scores = np.concatenate([matches.scores for _, matches in levels])
    level = np.repeat([number for number, _ in levels], [len(m) for _, m in levels])
    sizes = np.diff(sentences.starts)[numbers]
    inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    name = sentences.owners[np.repeat(sentences.starts[numbers], sizes) + inside]
    rows, numbers, scores, level = (
        np.repeat(column, sizes) for column in (rows, numbers, scores, level)
    )
    order = np.lexsort((numbers, -scores, level, name, rows))
    rows, name = rows[order], name[order]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (name[1:] != name[:-1])
    order = order[first]
    return rows[first], name[first], level[order], scores[order], numbers[order]


def _rejects(row_ids: pa.Array, columns: Sequence[pa.Array], found: pa.Table) -> pa.Table:
    """The rows of which some text was found, with the first such text and where it stands."""
    # The surest of each text.
    order = found.append_column("sure", pc.index_in(found["level"], pa.array(LEVELS)))
    order = order.sort_by([("place", "ascending"), ("sure", "ascending"), ("score", "descending")])
    texts = order["text"].combine_chunks()
    _, first = np.unique(order["place"].to_numpy(), return_index=True)
    order, texts = order.take(pa.array(first)), texts.take(pa.array(first))
    where = np.full(len(row_ids), -1, dtype=np.int64)
    for column in reversed(columns):
        places = pc.fill_null(pc.index_in(column, texts), -1).to_numpy(zero_copy_only=False)
        where = np.where(places >= 0, places, where)
    hit = np.flatnonzero(where >= 0)
    said = order.take(pa.array(where[hit]))
    score = pc.round(said["score"], 2).cast(pa.string())
    detail = pc.binary_join_element_wise(
        said["task"], ": ", said["level"], " ", score, ": ", said["evaluation_text"], ""
    )
    return pa.table(
        {
            "stage": pa.repeat("guard", len(hit)),
            "row_id": row_ids.take(pa.array(hit)),
            "reason": pa.repeat("contaminated", len(hit)),
            "detail": detail,
            "text": said["text"],
        }
    ).cast(REJECTS)


SENTENCES = Stage(
    name="guard",
    config=GuardConfig,
    tables={"contamination": CONTAMINATION},
    run=run,
    each="sentences",
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers"),
    externals=externals,
    locations=("suite", "triplets"),
)
TRIPLETS = replace(SENTENCES, each=None)
