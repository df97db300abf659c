"""Stage `guard`: finds texts of evaluation sets among the training texts.

Every distinct dev and test sentence of the tasks that the recipe is measured on is looked for in
each training text: by its letters, by its words, by its word n-grams and by its vector. For each
text and task the table names the surest of these levels. The stage reads texts in batches and keeps
only the ids of texts that match.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text import overlap
from tercet.models.text.overlap import Matches
from tercet.tasks.config import Need, Wired, WiredForm
from tercet.tasks.encoders import load_encoder
from tercet.tasks.evaluation.suites.beir import SUITE as RETRIEVAL_SETS
from tercet.tasks.evaluation.suites.beir import (
    RetrievalTask,
    find_retrieval_files,
    read_retrieval_sets,
)
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.evaluation.suites.own_questions import find_questions, read_questions
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.evaluation.suites.suite import read_suite, revisions, suite_files
from tercet.tasks.evaluation.suites.task import Task
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, EachPart, OnePart, Stage, Work

# Words in an n-gram. Evaluation sentences with fewer than MIN_WORDS words are only matched exactly.
ORDER, MIN_WORDS = 4, 6
# Without stored vectors: the share of n-grams from which a text is encoded.
SHORTLIST = 0.3


class GuardConfig(WiredForm):
    """The settings of what counts as contamination, and what happens to it.

    chosen_on: tasks whose dev split decides which checkpoint is kept. fact_order, sts_sets,
    retrieval_sets: names and files of their tasks. The form, max_length and precision must be those
    of the stored vectors.
    """

    action: Literal["remove", "report"] = Field(
        default="remove",
        description="Whether contaminated rows are left out of training or only reported.",
    )
    ngram: float | None = Field(
        default=0.8,
        gt=0.0,
        le=1.0,
        description="Share of an evaluation sentence's n-grams in one text; null: not checked.",
    )
    embedding_min: Annotated[float | None, Need("compares", instead=None)] = Field(
        default=0.9,
        gt=0.0,
        le=1.0,
        description="Cosine with an evaluation sentence; null: not checked.",
    )
    encoder: str | None = Field(
        default=None,
        description="Encodes the shortlist: directory, package:PACKAGE/FOLDER or hub name; null: "
        "evaluator.model, if there is one.",
    )
    suite: Wired[Path] = Path()
    tasks: Wired[tuple[str, ...]] = ()
    splits: Wired[tuple[Split, ...]] = ("test",)
    chosen_on: Wired[tuple[str, ...]] = ()
    fact_order: Wired[tuple[tuple[str, str], ...]] = ()
    sts_sets: Wired[tuple[tuple[str, StsSet], ...]] = ()
    retrieval_sets: Wired[tuple[tuple[str, RetrievalSource], ...]] = ()
    max_length: Wired[int] = 128


@dataclass(frozen=True)
class Sentences:
    """The distinct evaluation sentences, and the tasks that each belongs to.

    names: (suite, task). owners, starts: places in `names`, sentence after sentence.
    """

    texts: pa.Array
    names: Sequence[tuple[str, str]]
    owners: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    index: overlap.Index


def externals(config: GuardConfig) -> dict[str, Path | str]:
    """The files of the suite, and the revisions of mteb's tasks. Raises BadInput."""
    files: dict[str, Path | str] = dict(sentence_files(config))
    return files | revisions(config.tasks)


def sentence_files(config: GuardConfig) -> dict[str, Path]:
    """The files that hold them, by their path inside the suite. Raises BadInput."""
    files = find_case_files(dict(config.fact_order)) | find_set_files(dict(config.sts_sets))
    folders, tables = _retrieval_sets(config)
    files |= find_retrieval_files(folders, ("test", "dev"))
    files |= {f"questions/{name}": find_questions(one.source) for name, one in tables.items()}
    for tasks, splits in _asked(config):
        files |= suite_files(config.suite.expanduser(), tasks, splits)
    return files


def _retrieval_sets(
    config: GuardConfig,
) -> tuple[dict[str, RetrievalSource], dict[str, RetrievalSource]]:
    """The sets in BEIR's layout, and the sets that are tables of questions."""
    sets = dict(config.retrieval_sets)
    tables = {name: one for name, one in sets.items() if one.is_table}
    return {name: one for name, one in sets.items() if name not in tables}, tables


def _asked(config: GuardConfig) -> list[tuple[tuple[str, ...], tuple[Split, ...]]]:
    """Tasks and splits to read: splits that are measured or chosen on, and a second split if it
    exists.

    The second split of a measured task is the other one of dev and test.
    """
    pairs = [(config.tasks, config.splits)] if config.tasks else []
    if config.chosen_on:
        pairs.append((config.chosen_on, ("dev",)))
    others: tuple[Split, ...] = ("dev", "test")
    for split in others:
        for task in config.tasks if split not in config.splits else ():
            try:
                files = suite_files(config.suite.expanduser(), (task,), (split,))
            except BadInput:
                continue
            if files:
                pairs.append(((task,), (split,)))
    return pairs


def read_sentences(config: GuardConfig) -> Sentences:
    """Reads the evaluation sentences of all tasks."""
    places: dict[str, int] = {}
    names: dict[tuple[str, str], int] = {}
    owned: set[tuple[int, int]] = set()
    suites: list[Task] = []
    for tasks_and_splits in _asked(config):
        suites += read_suite(config.suite.expanduser(), *tasks_and_splits)
    both: tuple[Split, ...] = ("dev", "test")
    sets = read_sets(dict(config.sts_sets), both, required=False)
    folders, tables = _retrieval_sets(config)
    for table, one in tables.items():
        name = names.setdefault((RETRIEVAL_SETS, table), len(names))
        for question in read_questions(one).rows:
            owned.add((places.setdefault(question.text, len(places)), name))
    asked_of = read_retrieval_sets(folders, both)
    for task in (*suites, *read_cases(dict(config.fact_order), both), *sets, *asked_of):
        name = names.setdefault((task.suite, task.name), len(names))
        # The documents of a retrieval set may be the corpus; its queries are what nobody may see.
        for text in task.queries if isinstance(task, RetrievalTask) else task.texts():
            owned.add((places.setdefault(text, len(places)), name))
    pairs = np.array(sorted(owned), dtype=np.int64).reshape(-1, 2)
    starts = np.searchsorted(pairs[:, 0], np.arange(len(places) + 1))
    texts = pa.array(places, pa.string())
    least = min(config.ngram or 1.0, SHORTLIST)
    index = overlap.Index(texts, ORDER, MIN_WORDS, least)
    return Sentences(texts, list(names), pairs[:, 1], starts, index)


__all__ = ["LABELLED", "SENTENCES", "TRIPLETS", "GuardConfig"]

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
"""Table `contamination`. Training texts that match a sentence of an evaluation set: one row per
text and task, with the surest level at which it matched. The step `guard.sentences` checks the
sentences of the split `train`, `guard.triplets` the texts of the triplets, `guard.document_pairs`
the pairs of `train`, `guard.labelled` the labelled rows, and `guard.negatives` the mined negatives;
a text that two of them found is listed twice. Only recipes that are measured on some task have this
table. With `guard.action: remove`, rows with such a text are rejects of stage `guard`; a row with
such a negative is trained on without it.

Columns:
    text_id: id of the text, as in `embeddings`
    text: the training text
    suite: `sts`, `transfer`, `reranking`, `pairs`, `sts_sets`, `fact_order` or
        `retrieval_sets`
    task: the task, as in `evaluations`
    level: `exact`, `near`, `ngram` or `embedding`, surest first
    score: `exact`: 1; `near`: share of the longer text's words that agree; `ngram`: share of the
        sentence's n-grams; `embedding`: cosine
    evaluation_text: the evaluation sentence; of several, the one with the highest score
    removed: whether rows with this text are left out of training (`guard.action`)
"""

LEVELS = ("exact", "near", "ngram", "embedding")
EXACT, NEAR, NGRAM, EMBEDDING = range(4)
BATCH = 16_384
# By slot: columns of the rows' ids and texts, and the split that alone is trained on.
_TEXTS = {
    "triplets": ["triplet_id", "anchor", "positive", "negative"],
    "negatives": ["triplet_id", "text"],
    "labelled": ["row_id", "anchor", "positive", "negative"],
    "document_pairs": ["pair_id", "query", "answer", "split"],
    "sentences": ["sentence_id", "text", "split"],
}


def run(work: Work) -> None:
    """Emits `contamination`, and as rejects the rows that must not be trained on."""
    config: GuardConfig = work.config
    sentences = work.once(_sentences)
    stored = None
    if "embeddings" in work.inputs and config.embedding_min is not None:
        stored = stored_matches(work, sentences)
    emitted, done = np.empty(0, dtype=np.uint64), 0
    for row_ids, columns in _rows(work):
        # Not all labelled rows have a positive and a negative.
        texts = pa.chunked_array(columns).unique().drop_null()
        matches = _found(work, sentences, stored, texts)
        done += len(row_ids)
        work.resources.progress(done, None, "rows")
        if not matches.num_rows:
            continue
        # A text that occurs in several batches gets one row.
        new = ~np.isin(matches["text_id"].to_numpy(), emitted)
        emitted = np.union1d(emitted, matches["text_id"].to_numpy())
        work.emit("contamination", matches.filter(pa.array(new)).select(CONTAMINATION.names))
        if config.action == "remove":
            work.emit("rejects", _rejects(row_ids, columns, matches))


def _sentences(work: Work) -> Sentences:
    return read_sentences(work.config)


def _rows(work: Work) -> Iterator[tuple[pa.Array, list[pa.Array]]]:
    """Batches of training rows: their ids, and the columns of their texts."""
    (slot,) = work.inputs.keys() & _TEXTS.keys()
    for batch in work.inputs[slot].batches(slot, _TEXTS[slot], BATCH):
        if _TEXTS[slot][-1] == "split":
            batch = batch.filter(pc.equal(batch["split"], "train")).drop_columns(["split"])
        if batch.num_rows:
            yield batch.column(0), batch.columns[1:]


def _found(
    work: Work, sentences: Sentences, stored: tuple[Ids, Matches] | None, texts: pa.Array
) -> pa.Table:
    """Rows of `contamination` with `place`, the number of the text among these, in their order.

    stored: the matches of stored vectors, if there are any.
    """
    config: GuardConfig = work.config
    words = overlap.words_of(texts)
    index = sentences.index
    shares = index.shares(words)
    levels = [(EXACT, index.exact(words)), (NEAR, index.near(words))]
    if config.ngram is not None:
        levels.append((NGRAM, shares.filter(shares.scores >= config.ngram)))
    if stored is not None:
        levels.append((EMBEDDING, by_stored(texts, *stored)))
    elif config.embedding_min is not None and "encoder" in work.models:
        sure = np.concatenate([matches.rows for _, matches in levels])
        weak = shares.filter((shares.scores >= SHORTLIST) & ~np.isin(shares.rows, sure))
        levels.append((EMBEDDING, by_shortlist(work, sentences, texts, weak)))
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
    """For each text and task the match at the surest level with the highest score.

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


def _rejects(row_ids: pa.Array, columns: Sequence[pa.Array], matches: pa.Table) -> pa.Table:
    """Rejects for rows with a text that was found; of several texts, the first is named."""
    # The surest match of each text.
    order = matches.append_column("sure", pc.index_in(matches["level"], pa.array(LEVELS)))
    order = order.sort_by([("place", "ascending"), ("sure", "ascending"), ("score", "descending")])
    texts = order["text"].combine_chunks()
    _, first = np.unique(order["place"].to_numpy(), return_index=True)
    order, texts = order.take(pa.array(first)), texts.take(pa.array(first))
    where = np.full(len(row_ids), -1, dtype=np.int64)
    for column in reversed(columns):
        places = pc.fill_null(pc.index_in(column, texts), -1).to_numpy(zero_copy_only=False)
        where = np.where(places >= 0, places, where)
    hit = np.flatnonzero(where >= 0)
    matched = order.take(pa.array(where[hit]))
    score = pc.round(matched["score"], 2).cast(pa.string())
    detail = pc.binary_join_element_wise(
        matched["task"], ": ", matched["level"], " ", score, ": ", matched["evaluation_text"], ""
    )
    ids = row_ids.take(pa.array(hit))
    return rejects("guard", ids, "contaminated", detail, matched["text"])


SENTENCES = Stage(
    name="guard",
    config=GuardConfig,
    tables={"contamination": CONTAMINATION},
    run=run,
    cut=EachPart("sentences"),
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers"),
    # The guard reads only texts of tasks; the code that measures cannot change its rows.
    apart=("tercet.models.measures", "tercet.models.retrieval"),
    externals=externals,
    locations=("suite", "fact_order", "sts_sets.*.*.source", "retrieval_sets.*.*.source"),
)
TRIPLETS = replace(SENTENCES, cut=OnePart())
LABELLED = TRIPLETS


# Vectors of the evaluation sentences are kept in scratch, this many per piece.
_PIECE = 4_096
# How many sentences are sampled to see which cosine an encoder gives to unrelated texts, and how
# far from there to 1 a cosine must lie to mean anything.
_SAMPLE = 512
_TELLING = 0.8


def by_stored(texts: pa.Array, ids: Ids, stored: Matches) -> Matches:
    """The matches of these texts by their stored vectors. ids: of the stored texts, ascending."""
    text_ids = seeding.text_ids(texts.to_pylist())
    low, high = (
        np.searchsorted(ids, text_ids, side="left"),
        np.searchsorted(ids, text_ids, side="right"),
    )
    sizes = high - low
    inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.repeat(low, sizes) + inside
    rows = np.repeat(np.arange(len(text_ids)), sizes)
    return Matches(rows, stored.sentences[chosen], stored.scores[chosen])


def stored_matches(work: Work, sentences: Sentences) -> tuple[Ids, Matches]:
    """Stored texts whose cosine with some sentence is high: their ids, ascending, and the pairs."""
    long = np.flatnonzero(sentences.index.long)
    vectors = _sentence_vectors(work, sentences.texts.take(pa.array(long)).to_pylist())
    least = _telling(vectors, work.config.embedding_min)
    total, done = work.inputs["embeddings"].count("embeddings"), 0
    ids, numbers, scores = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0)]
    for batch in work.inputs["embeddings"].batches("embeddings", rows=overlap.BLOCK):
        flat = pc.list_flatten(batch["vector"]).to_numpy(zero_copy_only=False)
        near = overlap.near_vectors(flat.reshape(batch.num_rows, -1), vectors, least)
        ids.append(batch["text_id"].to_numpy()[near.rows])
        numbers.append(long[near.sentences])
        scores.append(near.scores)
        done += batch.num_rows
        work.resources.progress(done, total, "vectors")
    found_ids = np.concatenate(ids)
    order = np.argsort(found_ids, kind="stable")
    matches = Matches(
        np.arange(len(order)), np.concatenate(numbers)[order], np.concatenate(scores)[order]
    )
    return found_ids[order], matches


def _sentence_vectors(work: Work, texts: list[str]) -> overlap.Vectors:
    """The sentences' vectors; each piece is saved once it is computed."""
    pieces = []
    for first in range(0, len(texts), _PIECE):
        path = work.scratch / f"sentences-{first:08d}.npy"
        if not path.is_file():
            vectors = _encode(work, texts[first : first + _PIECE])
            with path.with_suffix(".part").open("wb") as file:
                np.save(file, vectors)
            path.with_suffix(".part").replace(path)
        pieces.append(np.load(path))
        work.resources.progress(min(first + _PIECE, len(texts)), len(texts), "sentences")
    return np.concatenate(pieces) if pieces else np.empty((0, 1), np.float32)


def _telling(vectors: overlap.Vectors, least: float) -> float:
    """The cosine from which two texts count as the same: `least`, or more if all are similar.

    An encoder never trained on sentences gives any two texts a cosine of 0.9, which means nothing.
    """
    chosen = np.unique(np.linspace(0, len(vectors) - 1, _SAMPLE).astype(np.int64))
    if len(vectors) < 2:
        return least
    cosines = vectors[chosen] @ vectors[chosen].T
    usual = float(np.median(cosines[np.triu_indices(len(chosen), 1)]))
    return max(least, usual + _TELLING * (1 - usual))


def by_shortlist(work: Work, sentences: Sentences, texts: pa.Array, weak: Matches) -> Matches:
    """Pairs of the shortlist whose cosine is high."""
    if not len(weak):
        return weak
    rows, row = np.unique(weak.rows, return_inverse=True)
    numbers, number = np.unique(weak.sentences, return_inverse=True)
    first = _encode(work, texts.take(pa.array(rows)).to_pylist())
    second = _encode(work, sentences.texts.take(pa.array(numbers)).to_pylist())
    scores = np.einsum("ij,ij->i", first[row], second[number]).astype(np.float64)
    # Unrelated texts are sampled from the whole suite, so that every part takes the same ones.
    long = np.flatnonzero(sentences.index.long)
    chosen = long[np.unique(np.linspace(0, len(long) - 1, _SAMPLE).astype(np.int64))]
    usual = _sentence_vectors(work, sentences.texts.take(pa.array(chosen)).to_pylist())
    least = _telling(usual, work.config.embedding_min)
    return Matches(weak.rows, weak.sentences, scores).filter(scores >= least)


def _encode(work: Work, texts: list[str]) -> overlap.Vectors:
    from tercet.models.encoders.encoder import encode

    encoder = work.once(load_encoder, "encoder")
    return encode(encoder, texts, work.resources.batch_size, work.config.precision)
