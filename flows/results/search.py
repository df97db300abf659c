"""Search in a run's passages: by the trained and untouched encoders, BM25, and a fusion of both."""

import os
import shutil
import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import kind_of
from tercet.flows.pipeline.fingerprints import made_model, weights_version
from tercet.flows.recipe.names import shipped_corpora
from tercet.flows.results.queries import find_artifact, named_run
from tercet.models import weights
from tercet.models.retrieval import bm25, rankings
from tercet.models.retrieval.bm25 import Bm25
from tercet.models.retrieval.rankings import NONE, Places, Scores, fuse
from tercet.storage import code, fingerprint, runs
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import Rows
from tercet.storage.store import Store
from tercet.tasks.corpus.passages import STAGE as PASSAGES_STAGE
from tercet.tasks.retrieval import passage_vectors
from tercet.tasks.retrieval.passage_vectors import read_texts
from tercet.tasks.stage import BadInput
from tercet.tasks.training import choose

# Depth of a ranking: passages behind it have no rank.
DEPTH = 1_000
AFTER, BEFORE, BM25, BOTH = "after", "before", "bm25", "both"
WAYS = (BOTH, AFTER, BEFORE, BM25)
PASSAGES = PASSAGES_STAGE.name
# Steps that may have the vectors of a way, in order of preference.
STEPS = {
    AFTER: (choose.NAME, f"{passage_vectors.STAGE.name}.encoder"),
    BEFORE: (f"{passage_vectors.STAGE.name}.base",),
}
FOUND = pa.schema(
    [
        *((way, pa.int32()) for way in WAYS),
        *((f"{way}_score", pa.float32()) for way in WAYS),
        ("text", pa.string()),
        ("context", pa.string()),
        ("path", pa.string()),
        ("corpus", pa.string()),
        ("passage_id", pa.uint64()),
    ]
)

_Ids: TypeAlias = npt.NDArray[np.uint64]
# A passage's rank and score.
_Rank: TypeAlias = tuple[int, float]
# From a query and a depth to the places and scores of the best passages, each of shape (1, any).
_Find: TypeAlias = Callable[[str, int], tuple[Places, Scores]]


@dataclass(frozen=True)
class Passages:
    """A run's passages, loaded for any number of queries.

    ways: for each of `AFTER`, `BEFORE` and `BM25` that the run has: the ids of the passages, and a
    function that finds their places. missing: why the run lacks a way. left_out: ids that are never
    found.
    """

    run: runs.Run
    rows: Rows
    index: Bm25
    left_out: set[int]
    ways: Mapping[str, tuple[_Ids, _Find]]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class PassageVectors:
    """A run's vectors, their encoder's directory, and the form in which it was loaded."""

    artifact: Artifact
    folder: Path
    config: passage_vectors.PassageVectorsConfig


@dataclass(frozen=True)
class Answer:
    """The passages found for a query. missing: why a way has no ranks."""

    run: runs.Run
    passages: int
    rows: pa.Table
    missing: Mapping[str, str]


def open_passages(store: Store, run_ref: str | None) -> Passages:
    """Loads the passages, their vectors, both encoders and the index of words.

    run_ref: None means the newest run that has vectors by its encoder, else passages.
    Raises: BadInput for a run without passages; StoreError for a store without runs, and for an
        unknown run.
    """
    run = _run(store, run_ref)
    artifact = find_artifact(store, PASSAGES, run["run_id"])
    rows, index = artifact.rows(), open_index(store, artifact)
    ways: dict[str, tuple[_Ids, _Find]] = {}
    missing: dict[str, str] = {}
    for way in (AFTER, BEFORE):
        try:
            ways[way] = _by_vectors(store, run, way)
        except BadInput as error:
            missing[way] = str(error)
    if AFTER in missing:
        missing[BOTH] = missing[AFTER]
    ways[BM25] = _ids(rows, PASSAGES), lambda query, depth: bm25.search(index, [query], depth)
    return Passages(run, rows, index, _shipped(rows, run), ways, missing)


def search(passages: Passages, query: str, count: int = 5, by: str | None = None) -> Answer:
    """The `count` best passages of each way, or of the way `by` alone, each with all its ranks.

    Passages that come with Tercet are found only if the run has no others.
    Ranks run from 1 to `DEPTH`. Rows are in the order of `by`. By default they are in the order of
    encoder and BM25 together (`rankings.fuse`), then of the trained encoder, the untouched encoder
    and BM25. A way without vectors in the run has no ranks.

    Raises: BadInput for an empty query, and for an unknown or missing way.
    """
    if not query.strip():
        raise BadInput("bad_value", "The query is empty: give a few words, in quotation marks.")
    check_options(count, by)
    if by is not None and by in passages.missing:
        raise BadInput("not_reached", passages.missing[by])
    searched = passages.rows.count(PASSAGES) - len(passages.left_out)
    count = min(count, searched)
    depth, left_out = max(DEPTH, count), passages.left_out
    rankings = {
        way: _ranks(ids, *find(query, depth + len(left_out)), left_out, depth)
        for way, (ids, find) in passages.ways.items()
    }
    if AFTER in rankings:
        rankings = {BOTH: _fuse(rankings[AFTER], rankings[BM25], depth), **rankings}
    chosen = rankings if by is None else {by: rankings[by]}
    best = {one for ranks in chosen.values() for one, (rank, _) in ranks.items() if rank <= count}
    behind = (depth + 1, 0.0)
    ordered = sorted(best, key=lambda one: [r.get(one, behind)[0] for r in chosen.values()])
    table = _table(passages.rows, ordered, {way: rankings.get(way, {}) for way in WAYS})
    return Answer(passages.run, searched, table, passages.missing)


def check_options(count: int, by: str | None) -> None:
    """Raises BadInput for an unknown way, and for less than one passage."""
    if by is not None and by not in WAYS:
        raise BadInput("unknown_name", f"by {by!r} must be one of {', '.join(WAYS)}.")
    if count < 1:
        raise BadInput("bad_value", f"count {count} must be 1 or more.")


def _run(store: Store, run_ref: str | None) -> runs.Run:
    """The run to search in. Raises BadInput if it has no passages."""
    run = runs.resolve_run(store, run_ref)
    if run_ref is None:
        # The newest run may have been stopped early, or its recipe may have no passages.
        listed = runs.list_runs(store)
        fitting = [
            [one for one in listed if step_of(one, AFTER) is not None],
            [one for one in listed if _reached(one, PASSAGES)],
        ]
        run = next((fitting_runs[0] for fitting_runs in fitting if fitting_runs), run)
    if not _reached(run, PASSAGES):
        none = f"{named_run(run)} has no passages"
        if run_ref is None:
            none = f"No run in {store.location} has passages"
        raise BadInput(
            "not_reached",
            f"{none} to search in: run a recipe with `passages: {{}}` under its `ingest`, or with "
            "--set 'ingest.passages={}'.",
        )
    return run


def step_of(run: runs.Run, way: str) -> str | None:
    """The run's step that has the passages' vectors for this way; None without one."""
    names = (
        entry["step"]
        for step in STEPS[way]
        for entry in run["steps"]
        if entry["step"] == step and entry.get("tables", {}).get(passage_vectors.STAGE.name)
    )
    return next(names, None)


def _reached(run: runs.Run, step: str) -> bool:
    return any(entry["step"] == step for entry in run["steps"])


def vectors_of(store: Store, run: runs.Run, way: str) -> PassageVectors:
    """The run's vectors for this way, and their encoder.

    Raises: BadInput if the run has no such vectors, or if their encoder is gone.
    """
    name, step = str(run["run_id"]), step_of(run, way)
    if step is None:
        encoder = "its trained encoder" if way == AFTER else "the untouched encoder"
        raise BadInput(
            "not_reached",
            f"Run {name} has no vectors of its passages by {encoder} (step {STEPS[way][-1]}): run "
            "its recipe, which must train, to the end.",
        )
    artifact = find_artifact(store, step, name)
    components = artifact.components()
    keys = passage_vectors.PassageVectorsConfig.model_fields.keys() - {"mix"}
    settings = {key: value for key, value in components["config"].items() if key in keys}
    config = passage_vectors.PassageVectorsConfig.model_validate(settings)
    # The step `choose` has both the encoder that it chose and its vectors.
    folder = artifact.model_dir()
    if folder is None:
        version = components["models"]["encoder"]
        folder = made_model(store, version) or _backbone_folder(store, run, version)
    return PassageVectors(artifact, folder, config)


def _by_vectors(store: Store, run: runs.Run, way: str) -> tuple[_Ids, _Find]:
    """The ids of the passages that have vectors, and a function that finds places by cosine."""
    vectors = vectors_of(store, run, way)
    encoder, rows = load_as_made(vectors.folder, vectors.config), vectors.artifact.rows()
    blocks = list(passage_vectors.read_blocks(rows))

    from tercet.models.encoders.encoder import encode

    def find(query: str, depth: int) -> tuple[Places, Scores]:
        return rankings.search_vectors(encode(encoder, [query], side="query"), blocks, depth)

    return _ids(rows, passage_vectors.STAGE.name), find


# Cached, since a search from Python calls this function for every query.
@lru_cache(maxsize=len(STEPS))
def load_as_made(folder: Path, config: passage_vectors.PassageVectorsConfig) -> Any:
    """The encoder in the form that made the vectors. Raises BadInput if it cannot be loaded."""
    from tercet.models.encoders.encoder import load_encoder

    try:
        return load_encoder(
            folder,
            config.pooling,
            config.max_length,
            trust_remote_code=config.trust_remote_code,
            prompt=config.prompt,
            cnn_seed=config.cnn_seed,
            prompts=config.prompts,
        )
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), str(error)) from None


def _backbone_folder(store: Store, run: runs.Run, version: str) -> Path:
    """The directory of the run's backbone. Raises BadInput if it has changed since the run."""
    name = str(run["recipe"].get("backbone"))
    try:
        folder = weights.cached(name)
    except weights.ModelMissing as error:
        raise BadInput(error.kind, str(error)) from None
    if folder is None or weights_version(store, name, folder) != version:
        raise BadInput(
            "gone",
            f"The backbone {name!r} has changed or gone since run {run['run_id']}: run the recipe "
            "again.",
        )
    return folder


def _ids(rows: Rows, table: str) -> _Ids:
    ids: _Ids = rows.table(table, ["passage_id"])["passage_id"].to_numpy()
    return ids


def _shipped(rows: Rows, run: runs.Run) -> set[int]:
    """The ids of the shipped passages; empty if all passages are shipped."""
    corpora = shipped_corpora(run["recipe"])
    if not corpora:
        return set()
    both = rows.table(PASSAGES, ["passage_id", "corpus"])
    of_tercet = both.filter(pc.field("corpus").isin(corpora))["passage_id"].to_pylist()
    return set(of_tercet) if len(of_tercet) < both.num_rows else set()


def _ranks(
    ids: _Ids, places: Places, scores: Scores, left_out: Container[int], depth: int
) -> dict[int, _Rank]:
    """Rank and score of each passage found for the query, by its id."""
    filled = places[0] != NONE
    ranked = zip(ids[places[0][filled]].tolist(), scores[0][filled].tolist(), strict=True)
    allowed = islice((both for both in ranked if both[0] not in left_out), depth)
    return {one: (rank, score) for rank, (one, score) in enumerate(allowed, start=1)}


def _fuse(near: Mapping[int, _Rank], worded: Mapping[int, _Rank], depth: int) -> dict[int, _Rank]:
    ids = np.array(sorted({*near, *worded}), dtype=np.uint64)
    by_vectors, by_words = (
        (
            np.searchsorted(ids, np.array([*ranks], dtype=np.uint64))[None].astype(np.int64),
            np.array([[score for _, score in ranks.values()]], dtype=np.float32),
        )
        for ranks in (near, worded)
    )
    return _ranks(ids, *fuse(by_vectors, by_words), (), depth)


def _table(
    rows: Rows, ordered: Sequence[int], rankings: Mapping[str, Mapping[int, _Rank]]
) -> pa.Table:
    """The rows of these passages, with rank and score in each ranking."""
    listed = ", ".join(map(str, ordered)) or "NULL"
    with duckdb.connect() as connection:
        texts = connection.sql(
            f"""SELECT passage_id, text, context, path, corpus FROM {rows.sql(PASSAGES)}
                WHERE passage_id IN ({listed})"""
        ).to_arrow_table()
    of = {row["passage_id"]: row for row in texts.to_pylist()}
    found_rows = []
    for one in ordered:
        row = dict(of[one])
        for way, ranks in rankings.items():
            row[way], row[f"{way}_score"] = ranks.get(one, (None, None))
        found_rows.append(row)
    return pa.Table.from_pylist(found_rows, FOUND)


def open_index(store: Store, passages: Artifact) -> Bm25:
    """The index of these passages by their place in the table; built if there is none yet."""
    folder = store.work / "cache" / "bm25" / _index_key(store, passages)
    with suppress(OSError, ValueError):
        return bm25.load(folder)
    built = bm25.build(read_texts(passages.rows()))
    # A read-only store can still be searched.
    with suppress(OSError):
        aside = store.work / "scratch" / f"bm25-{os.getpid()}-{uuid.uuid4().hex}"
        try:
            bm25.save(built, aside)
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return built


def _index_key(store: Store, passages: Artifact) -> str:
    """The cache key: the passages' version, then a digest of the code that builds the index.

    Garbage collection removes the index with the version at its beginning.
    """
    with code.remembered(store):
        modules = code.code_digests([bm25.__name__])
    digest = fingerprint.digest({"code": modules, "bm25s": metadata.version("bm25s")})
    return f"{passages.version}-{digest}"
