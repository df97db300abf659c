"""Stage `mine`: negatives for topical positives, from the vectors that `embed` stored.

For each topical positive it takes the nearest text of another document whose similarity to the
sentence is below a share of the positive's similarity. It searches all topical positives and their
sentences, without texts that occur in several documents.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.generation import DETAIL
from tercet.models.seeding import Ids
from tercet.tasks.scoring.evaluator import StoredVectors, Vectors, stored_vectors
from tercet.tasks.scoring.score import SCORES
from tercet.tasks.stage import Config, Planned, Stage, Work, connection
from tercet.tasks.synthesis.parse import CANDIDATES

# Queries compared with a block of the pool at once.
_QUERIES = 512


def nearest_below(
    queries: Vectors,
    docs: Ids,
    caps: npt.NDArray[np.float32],
    pool: Iterable[tuple[Vectors, Ids]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The pool's row with the highest cosine below each query's caps, and that cosine.

    The cap is a share of the similarity of the row's own positive: a text as near as that may be
    just as right (positive-aware mining, de Souza P. Moreira et al. 2024, arXiv:2407.15831,
    section 3).

    queries: unit vectors (n, dimension). docs: the document of each query (n,), whose texts are
    left out. caps: (n, k), NaN where a query has fewer. pool: blocks of unit vectors with their
    documents, in ascending order within each block; rows are counted through all blocks.
    Returns rows and cosines, each (n, k); row -1 and cosine -inf where there is none.
    """
    best = np.full(caps.shape, -np.inf, dtype=np.float32)
    rows = np.full(caps.shape, -1, dtype=np.int64)
    begin = 0
    for vectors, owners in pool:
        low, high = np.searchsorted(owners, docs, "left"), np.searchsorted(owners, docs, "right")
        for start in range(0, len(queries), _QUERIES):
            some = slice(start, start + _QUERIES)
            cosines = queries[some] @ vectors.T
            for place in np.flatnonzero(low[some] < high[some]):
                cosines[place, low[start + place] : high[start + place]] = -np.inf
            for k in range(caps.shape[1]):
                # A comparison with NaN is false: no row is below a missing cap.
                better = cosines > best[some, k, None]
                better &= cosines < caps[some, k, None]
                # Few queries find a better row in a later block.
                hits = np.flatnonzero(better.any(axis=1))
                nearest = np.where(better[hits], cosines[hits], -np.inf).argmax(axis=1)
                best[start + hits, k] = cosines[hits, nearest]
                rows[start + hits, k] = begin + nearest
        begin += len(vectors)
    return rows, best


METHOD = "mined"
# The scorer that made the vectors.
_SCORER = "evaluator"
# Sentences of a part, and texts compared at once.
_PART, _BLOCK = 8_192, 16_384


class MineConfig(Config):
    """How near a mined negative may be."""

    below: float = Field(
        default=0.95,
        gt=0.0,
        le=1.0,
        description="Highest similarity to the sentence, as a share of the positive's.",
    )


# A topical candidate with its text's id and its sentence's document.
_TOPICAL = """
SELECT c.sentence_id, md5_number_lower(c.text) AS text_id, s.doc_id
FROM {candidates} c JOIN {sentences} s USING (sentence_id)
WHERE c.relation = 'topic' AND c.role = 'positive' AND c.anchor IS NULL"""


def plan(work: Work) -> list[dict[str, Any]]:
    """Parts of the sentences that have a topical positive."""
    with connection(work) as db:
        counts = db.execute(
            f"SELECT count(DISTINCT sentence_id) FROM ({_topical(work)})"
        ).fetchall()
    parts = -(-int(counts[0][0]) // _PART)
    return [{"part": part, "of": parts} for part in range(parts)]


def run(work: Work) -> None:
    """Emits the mined candidates of one part with their similarities."""
    config: MineConfig = work.config
    with connection(work) as db:
        positives = db.sql(
            f"""SELECT DISTINCT * FROM ({_topical(work)})
                WHERE sentence_id % {work.spec["of"]} = {work.spec["part"]}
                ORDER BY sentence_id, text_id"""
        ).to_arrow_table()
        pool = db.sql(
            f"""SELECT text_id, any_value(doc_id) AS doc_id FROM (
                    SELECT text_id, doc_id FROM ({_topical(work)})
                    UNION ALL SELECT sentence_id, doc_id FROM ({_topical(work)}))
                GROUP BY text_id HAVING count(DISTINCT doc_id) = 1 ORDER BY doc_id, text_id"""
        ).to_arrow_table()
    stored = stored_vectors(work)
    sentences, docs, queries, caps = _queries(positives, stored, config.below)
    rows, cosines = nearest_below(queries, docs, caps, _blocks(pool, stored))
    chosen = rows >= 0
    texts = pool["text_id"].to_numpy()[rows[chosen]]
    of = np.broadcast_to(sentences[:, None], rows.shape)[chosen]
    nearest = pa.table({"sentence_id": of, "text_id": texts, "value": cosines[chosen]})
    _emit(work, nearest)
    work.resources.progress(len(sentences), len(sentences), "sentences")


def _topical(work: Work) -> str:
    names = ("candidates", "sentences")
    return _TOPICAL.format(**{name: work.inputs[name].sql(name) for name in names})


def _queries(
    positives: pa.Table, stored: StoredVectors, below: float
) -> tuple[Ids, Ids, Vectors, npt.NDArray[np.float32]]:
    """Sentences, their documents and unit vectors, and the caps of their positives (n, k).

    positives: sentence_id, text_id, doc_id in order of sentence_id. A pair without stored vectors
    has the cap NaN.
    """
    of, texts = positives["sentence_id"].to_numpy(), positives["text_id"].to_numpy()
    sentences, first, place = np.unique(of, return_index=True, return_inverse=True)
    docs = positives["doc_id"].to_numpy()[first]
    vectors, of_sentence = _unit_vectors(stored, sentences)
    other, has_vector = _unit_vectors(stored, texts)
    cosines = np.einsum("nd,nd->n", vectors[place], other)
    cosines[~(of_sentence[place] & has_vector)] = np.nan
    nth = np.arange(len(of)) - first[place]
    caps = np.full((len(sentences), int(nth.max(initial=0)) + 1), np.nan, dtype=np.float32)
    caps[place, nth] = below * cosines
    return sentences, docs, vectors, caps


def _blocks(pool: pa.Table, stored: StoredVectors) -> Iterator[tuple[Vectors, Ids]]:
    """The pool's vectors in blocks; a text without a stored vector is NaN, so never the nearest."""
    for start in range(0, pool.num_rows, _BLOCK):
        block = pool.slice(start, _BLOCK)
        vectors, is_stored = _unit_vectors(stored, block["text_id"].to_numpy())
        vectors[~is_stored] = np.nan
        yield vectors, block["doc_id"].to_numpy()


def _unit_vectors(stored: StoredVectors, ids: Ids) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """Unit vectors of these texts in their order, and which of them are stored."""
    distinct, place = np.unique(ids, return_inverse=True)
    stored_ids, vectors = stored.find(distinct)
    full = np.zeros((len(distinct), vectors.shape[1]), dtype=np.float32)
    is_stored = np.isin(distinct, stored_ids)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    full[is_stored] = vectors / np.maximum(lengths, 1e-12)
    return full[place], is_stored[place]


def _emit(work: Work, nearest: pa.Table) -> None:
    """Emits the candidates and their scores. nearest: sentence_id, text_id, value."""
    with connection(work) as db:
        db.register("found", nearest)
        texts = db.sql(
            f"""SELECT sentence_id, any_value(text) AS text, any_value(value) AS value
                FROM (SELECT sentence_id, text_id, max(value) AS value FROM found GROUP BY ALL)
                JOIN (
                    SELECT md5_number_lower(text) AS text_id, text
                    FROM {work.inputs["candidates"].sql("candidates")} WHERE relation = 'topic'
                    UNION ALL
                    SELECT sentence_id, text FROM {work.inputs["sentences"].sql("sentences")}
                ) USING (text_id)
                GROUP BY sentence_id, text_id ORDER BY sentence_id, text_id"""
        ).to_arrow_table()
    rows = texts.num_rows
    of: list[int] = texts["sentence_id"].to_pylist()
    mined: list[str] = texts["text"].to_pylist()
    ids = seeding.text_ids(map(str, of), [METHOD] * rows, ["negative"] * rows, mined)
    nulls = [pa.nulls(rows, field.type) for field in DETAIL.fields[1:]]
    detail = pa.StructArray.from_arrays([pa.repeat(METHOD, rows), *nulls], fields=DETAIL.fields)
    candidates = {
        "candidate_id": pa.array(ids, pa.uint64()),
        "generation_id": pa.nulls(rows, pa.uint64()),
        "sentence_id": texts["sentence_id"],
        "role": pa.repeat("negative", rows),
        "relation": pa.repeat("other", rows),
        "method": pa.repeat(METHOD, rows),
        "anchor": pa.nulls(rows, pa.string()),
        "text": texts["text"],
        "detail": detail,
    }
    work.emit("candidates", pa.table(candidates).cast(CANDIDATES))
    scores = [
        candidates["candidate_id"],
        pa.repeat(_SCORER, rows),
        pa.repeat("similarity", rows),
        texts["value"].cast(pa.float64()),
    ]
    work.emit("scores", pa.table(scores, schema=SCORES))


STAGE = Stage(
    name="mine",
    config=MineConfig,
    tables={"candidates": CANDIDATES, "scores": SCORES},
    run=run,
    cut=Planned(plan),
    seeded=False,
)
