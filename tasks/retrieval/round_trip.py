"""Scorer `round_trip`: the rank of a query's own passage when the query searches all passages.

A language model may write a query that many passages answer, or that its own does not. A search
shows both (Dai et al., ICLR 2023, section 3.2, "round-trip consistency").
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.retrieval import bm25
from tercet.models.retrieval.rankings import NONE, Places, fuse, search_vectors
from tercet.models.seeding import Ids
from tercet.models.text.passages import above
from tercet.storage.rows import Rows
from tercet.tasks.corpus.anchors import is_query
from tercet.tasks.encoders import load_encoder
from tercet.tasks.rejects import rejects
from tercet.tasks.retrieval.passage_vectors import (
    PassageVectorsConfig,
    Vectors,
    read_blocks,
    read_texts,
)
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, emit_scores
from tercet.tasks.stage import EachPart, Stage, Work, connection

NAME = "round_trip"
# Depth of the search; a passage that is not found has the next rank.
DEPTH = 1_000

# Queries whose rankings are in memory at once.
_QUERIES = 4_096


@dataclass(frozen=True)
class Searched:
    """The passages that are searched, the same for all parts.

    ids: the passages' ids by place. order: places in the order of the ids. of_vectors: the place of
    each stored vector's passage.
    """

    ids: Ids
    order: npt.NDArray[np.int64]
    of_vectors: Places
    words: bm25.Bm25

    def places(self, ids: Ids) -> Places:
        """The places of these passages, all of which must exist."""
        return np.asarray(self.order[np.searchsorted(self.ids[self.order], ids)])


def run(work: Work) -> None:
    """Emits ranks for the queries in one part of the candidates.

    A query that is its passage's own heading (`title`, `heading`) gets none: it would find itself.
    """
    done, total = 0, work.inputs["candidates"].count("candidates")
    for batch in _queries(work):
        texts = batch["anchor"].to_pylist()
        vectors = _encode(work, texts)
        finite = np.isfinite(vectors).all(axis=1)
        ranked, lost = batch.filter(pa.array(finite)), batch.filter(pa.array(~finite))
        if lost.num_rows:
            detail = "the evaluator's vector of the query is not a number"
            row_ids, anchors = lost["candidate_id"], lost["anchor"]
            work.emit("rejects", rejects(STAGE_NAME, row_ids, "nan_score", detail, anchors))
        if ranked.num_rows:
            ids = ranked["sentence_id"].to_numpy()
            ranks = rank(work, vectors[finite], ranked["anchor"].to_pylist(), ids)
            for measure, values in ranks.items():
                emit_scores(work, NAME, measure, ranked, values)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def rank(work: Work, vectors: Vectors, texts: list[str], ids: Ids) -> dict[str, Places]:
    """By measure, the rank of each query's passage: 1 is first, `DEPTH` + 1 not found.

    vectors: of the queries, (n, dimension), finite. ids: of their passages, (n,).
    """
    searched = work.once(_prepare)
    sources = searched.places(ids)[:, None]
    blocks = read_blocks(work.inputs["passage_vectors"])
    near, cosines = search_vectors(vectors, blocks, DEPTH)
    # Index -1, `NONE`, takes the appended `NONE`.
    near_passages = np.append(searched.of_vectors, NONE)[near]
    worded = bm25.search(searched.words, texts, DEPTH)
    rankings = {
        "rank_vectors": near_passages,
        "rank_bm25": worded[0],
        "rank_fused": fuse((near_passages, cosines), worded)[0],
    }
    return {
        measure: np.where(
            (places == sources).any(axis=1), (places == sources).argmax(axis=1), DEPTH
        )
        + 1
        for measure, places in rankings.items()
    }


def _queries(work: Work) -> Iterator[pa.RecordBatch]:
    """Candidates that are queries, without headings of their own passages."""
    candidates, passages = work.inputs["candidates"], work.inputs["passages"]
    with connection(work) as db:
        reader = db.sql(
            f"""SELECT candidate_id, sentence_id, anchor, context
                FROM {candidates.sql("candidates")}
                JOIN (SELECT passage_id, context FROM {passages.sql("passages")})
                ON passage_id = sentence_id
                WHERE {is_query(passages)} ORDER BY candidate_id"""
        ).to_arrow_reader(_QUERIES)
        for batch in reader:
            both = zip(batch["anchor"].to_pylist(), batch["context"].to_pylist(), strict=True)
            yield batch.filter(pa.array([anchor not in above(context) for anchor, context in both]))


def _encode(work: Work, texts: list[str]) -> Vectors:
    from tercet.models.encoders.encoder import encode

    config: PassageVectorsConfig = work.config
    model = work.once(load_encoder, "encoder")
    return encode(model, texts, work.resources.batch_size, config.precision, side="query")


def _prepare(work: Work) -> Searched:
    passages: Rows = work.inputs["passages"]
    ids = passages.table("passages", ["passage_id"])["passage_id"].to_numpy()
    order = np.argsort(ids, kind="stable")
    words = bm25.build(read_texts(passages))
    stored = work.inputs["passage_vectors"].table("passage_vectors", ["passage_id"])
    of_vectors = order[np.searchsorted(ids[order], stored["passage_id"].to_numpy())]
    return Searched(ids, order, of_vectors, words)


STAGE = Stage(
    name=STAGE_NAME,
    # Queries are encoded as the passages were.
    config=PassageVectorsConfig,
    tables={"scores": SCORES},
    run=run,
    cut=EachPart("candidates"),
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers", "bm25s", "pystemmer"),
)
SCORER = Scorer(NAME, "rank", STAGE, reads=("passages", "passage_vectors"))
