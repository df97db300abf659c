"""Stage `negatives`: hard negatives of every row with a query, from all passages of train.

The passages are ranked for each query by the evaluator's vectors, by BM25 or by both. Passages that
may answer the query are left out, and the next `k` become the row's negatives. Memory holds one
part's rows, the passages' ids and an index of words; vectors lie in a file.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models import seeding
from tercet.models.encoders.settings import SIDES
from tercet.models.retrieval import bm25, rankings
from tercet.models.retrieval.bm25 import Bm25
from tercet.models.retrieval.rankings import NONE, Places, Scores, fuse
from tercet.models.seeding import Ids
from tercet.models.text.passages import passage_text
from tercet.models.text.shingles import shared_words
from tercet.storage.rows import quoted
from tercet.tasks.config import Wired
from tercet.tasks.corpus.anchors import is_query
from tercet.tasks.corpus.held_out import held_out_shingles
from tercet.tasks.encoders import load_encoder
from tercet.tasks.rejects import rejects
from tercet.tasks.retrieval.passage_vectors import PassageVectorsConfig, Vectors
from tercet.tasks.stage import BadInput, Planned, Stage, Work, connection

# Passages whose vectors, whose texts and whose shingles are in memory at once.
_BLOCK, _LOT, _SHARED = 65_536, 1_024, 8_192


@dataclass(frozen=True)
class TrainPassages:
    """The passages that negatives come from, in order of their ids.

    vectors: (passages, dimension), a memory map. vectors, words: None if not searched by.
    """

    ids: Ids
    vectors: Vectors | None
    words: Bm25 | None

    def blocks(self) -> Iterator[Vectors]:
        """The vectors in blocks."""
        assert self.vectors is not None
        for start in range(0, len(self.vectors), _BLOCK):
            yield np.asarray(self.vectors[start : start + _BLOCK])


def train_passages(work: Work) -> TrainPassages:
    """The passages of train that share no shingle with a text of dev or test, with what
    `work.config.by` searches. Raises BadInput if there are none."""
    ids, passages = _train_ids(work)
    if not len(ids):
        reason = "no passage is in the split train"
        if passages:
            reason = "every passage of train has words of dev or test"
        raise BadInput(
            "no_rows",
            f"negatives: {reason}: "
            "lower ingest.dev and ingest.test, add documents, or leave `negatives` out.",
        )
    vectors = words = None
    if work.config.by != "bm25":
        ids, vectors = _lay_out(work, ids)
    if work.config.by != "vectors":
        words = bm25.build(_texts(work, ids))
    return TrainPassages(ids, vectors, words)


def _train_ids(work: Work) -> tuple[Ids, int]:
    """The ids of these passages, sorted; and how many are in the split train."""
    with connection(work) as db:
        held_out = held_out_shingles(db, work)
    columns = ["passage_id", "context", "text", "split"]
    parts, total = [np.empty(0, np.uint64)], 0
    for batch in work.inputs["passages"].batches("passages", columns, _SHARED):
        train = batch.filter(pc.equal(batch["split"], "train"))
        contexts, texts = train["context"].to_pylist(), train["text"].to_pylist()
        whole = pa.array(map(passage_text, contexts, texts), pa.string())
        # Training reads a passage in either form.
        shared, _ = shared_words(pa.concat_arrays([train["text"], whole]), held_out)
        parts.append(np.delete(train["passage_id"].to_numpy(), shared % max(len(texts), 1)))
        total += len(texts)
    return np.sort(np.concatenate(parts)), total


def _texts(work: Work, ids: Ids) -> Iterator[str]:
    """The texts of these passages as an encoder reads them, in order of their ids."""
    with connection(work) as db:
        db.register("wanted", pa.table({"passage_id": ids}))
        batches = db.sql(
            f"""SELECT context, text FROM {work.inputs["passages"].sql("passages")}
                JOIN wanted USING (passage_id) ORDER BY passage_id"""
        ).to_arrow_reader(_LOT)
        for batch in batches:
            both = zip(batch["context"].to_pylist(), batch["text"].to_pylist(), strict=True)
            yield from (passage_text(context, text) for context, text in both)


def _lay_out(work: Work, ids: Ids) -> tuple[Ids, Vectors]:
    """The ids of these passages that have a vector, and a memory map of the vectors."""
    rows = work.inputs["passage_vectors"]
    stored = rows.table("passage_vectors", ["passage_id"])["passage_id"].to_numpy()
    ids = np.intersect1d(ids, stored)
    vectors: Vectors = np.zeros((0, 1), np.float32)
    for batch in rows.batches("passage_vectors", ["passage_id", "vector"], _BLOCK):
        of_batch = batch["passage_id"].to_numpy()
        flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
        flat = flat.reshape(batch.num_rows, -1)
        if not len(vectors):
            # A file without a name disappears with the process, however that ends.
            with tempfile.TemporaryFile(dir=work.scratch) as unnamed:
                vectors = np.memmap(unnamed, np.float32, "w+", shape=(len(ids), flat.shape[1]))
        chosen = np.isin(of_batch, ids)
        vectors[np.searchsorted(ids, of_batch[chosen])] = flat[chosen]
    return ids, vectors


NEGATIVES = pa.schema(
    [
        ("triplet_id", pa.uint64()),
        ("rank", pa.int32()),
        ("passage_id", pa.uint64()),
        ("text", pa.string()),
        ("score", pa.float64()),
    ]
)
"""Table `negatives`. The mined negatives of rows with a query, at most `negatives.k` a row, all of
them passages of the split train that share no eight words in a row with dev or test.

Left out are a row's own passage (of a document pair, all of its document), passages with the text
of a positive of the same query or within one, a passage whose text is the query, one whose title
and headings have all of its words, and what is nearer to the query than `negatives.margin` allows.

Key: `triplet_id`, `passage_id`.

Columns:
    triplet_id: the row: → `triplets.triplet_id`; of the step `negatives.document_pairs` →
        `document_pairs.pair_id`, of `negatives.labelled` → `labelled.row_id`
    rank: from 1, the nearest
    passage_id: → `passages.passage_id`
    text: what is trained on: context and text, as of the row's positive if it is such a passage;
        else the text alone, since headings would tell negatives from positives
    score: cosine of query and passage by the evaluator; with `by: bm25` their BM25 score
"""

Source: TypeAlias = Literal["queries", "document_pairs", "labelled"]

# Rows of a part, and queries whose passages' vectors are read at once.
_PART, _QUERIES = 8_192, 256
# Passages that are considered for a query: the largest possible `k`.
_DEPTH = 100
# Most passages of a query's own that the search makes room for.
_MOST_OWN = 1_000

# The words of a text in lower case, in SQL.
_WORDS = r"regexp_extract_all({0}, '[\p{{L}}\p{{N}}]+')"

# row_id, anchor, positive and own: for queries the id of their passage, else of their document.
_ROWS: dict[Source, str] = {
    "queries": """SELECT triplet_id AS row_id, anchor, positive, sentence_id AS own FROM {table}
        WHERE {query}""",
    "document_pairs": """SELECT pair_id AS row_id, query AS anchor, answer AS positive,
        doc_id AS own FROM {table} WHERE split = 'train'""",
    "labelled": """SELECT row_id, any_value(anchor) AS anchor, any_value(positive) AS positive,
        NULL::UBIGINT AS own FROM {table} WHERE {labelled} AND positive IS NOT NULL
        GROUP BY row_id""",
}


class NegativesConfig(PassageVectorsConfig):
    """How hard negatives are mined; queries are encoded as the passages were.

    source: the rows that they are mined for. corpora: names of corpora of labelled rows.
    """

    k: int = Field(default=4, ge=1, le=100, description="Negatives of a row, at most.")
    by: Literal["vectors", "bm25", "both"] = Field(
        default="vectors",
        description="How passages are ranked: by the evaluator's vectors, by BM25, or by the "
        "sum of both.",
    )
    margin: float = Field(
        default=0.05,
        ge=0.0,
        le=1.0,
        description="By what share of the positive's similarity to the query a negative's must be "
        "lower: by cosines, with `by: bm25` by BM25 scores.",
    )
    source: Wired[Source] = "queries"
    corpora: Wired[tuple[str, ...]] = ()


def count_rows(work: Work) -> int:
    """The number of rows for which negatives are mined."""
    with connection(work) as db:
        return int(db.execute(f"SELECT count(*) FROM ({_rows_sql(work)})").fetchall()[0][0])


def plan(work: Work) -> list[dict[str, Any]]:
    """Parts of the rows; rows of one query are in one part.

    own: for how many passages of the query itself the rankings make room.
    """
    passages = work.inputs["passages"].sql("passages")
    with connection(work) as db:
        if work.config.source == "document_pairs":
            grouped = f"FROM {passages} WHERE split = 'train' GROUP BY doc_id"
        else:
            grouped = f"FROM ({_rows_sql(work)}) GROUP BY anchor"
        counted = f"SELECT max(n) FROM (SELECT count(*) AS n {grouped})"
        own_passages = min(db.execute(counted).fetchall()[0][0] or 0, _MOST_OWN)
    parts = -(-count_rows(work) // _PART)
    return [{"part": part, "of": parts, "own": own_passages} for part in range(parts)]


def run(work: Work) -> None:
    """Emits the negatives of one part of the rows; a reject for each row without a vector."""
    of_part = f"md5_number_lower(anchor) % {work.spec['of']} = {work.spec['part']}"
    with connection(work) as db:
        rows = db.sql(
            f"SELECT * FROM ({_rows_sql(work)}) WHERE {of_part} ORDER BY row_id"
        ).to_arrow_table()
    searched, vectors = work.once(train_passages), None
    if work.config.by != "bm25":
        rows, vectors = _encode(work, searched, rows)
    if not rows.num_rows:
        return
    anchors = rows["anchor"].combine_chunks().dictionary_encode()
    of = anchors.indices.to_numpy()
    places, scores, scores_of_positives = _rank(
        work, searched, anchors.dictionary.to_pylist(), of, rows, vectors
    )
    # The least similar positive of a query decides, as in sentence-transformers.
    least: Scores = np.full(len(places), np.inf, dtype=np.float32)
    np.minimum.at(least, of, scores_of_positives)
    query, rank = np.nonzero(places != NONE)
    negatives = pa.table(
        {
            "query": query,
            "rank": rank,
            "passage_id": searched.ids[places[query, rank]],
            "score": scores[query, rank],
        }
    )
    negatives = _without_answers(
        work, rows.append_column("query", pa.array(of, pa.int64())), negatives
    )
    highest = (least - work.config.margin * np.abs(least))[negatives["query"].to_numpy()]
    negatives = negatives.filter(pa.array(negatives["score"].to_numpy() <= highest))
    _emit(work, rows, *_pick(work.config.k, of, negatives))


def _rows_sql(work: Work) -> str:
    config: NegativesConfig = work.config
    name = "triplets" if config.source == "queries" else config.source
    listed = ", ".join(map(quoted, config.corpora))
    return _ROWS[config.source].format(
        table=work.inputs[name].sql(name),
        query=is_query(work.inputs["passages"]),
        labelled=f"corpus IN ({listed})" if listed else "TRUE",
    )


def _encode(
    work: Work, searched: TrainPassages, rows: pa.Table
) -> tuple[pa.Table, tuple[Vectors, Vectors]]:
    """The rows whose texts have vectors, and the anchors' and positives' vectors, (rows, d)."""
    from tercet.models.encoders.encoder import encode

    assert searched.vectors is not None
    model, sides = work.once(load_encoder, "encoder"), []
    size, precision = work.resources.batch_size, work.config.precision
    for column, side in zip(("anchor", "positive"), SIDES, strict=True):
        texts = rows[column].combine_chunks().dictionary_encode()
        distinct, of = texts.dictionary.to_pylist(), texts.indices.to_numpy()
        text_ids = seeding.text_ids(distinct)
        places = np.searchsorted(searched.ids, text_ids).clip(max=len(searched.ids) - 1)
        # A positive that is a passage has its vector already.
        stored = (searched.ids[places] == text_ids) & (side == "document")
        vectors = np.zeros((len(distinct), searched.vectors.shape[1]), dtype=np.float32)
        vectors[stored] = searched.vectors[places[stored]]
        new = [text for text, is_stored in zip(distinct, stored, strict=True) if not is_stored]
        vectors[~stored] = encode(model, new, size, precision, side=side)
        sides.append(vectors[of])
    finite = np.isfinite(sides[0]).all(axis=1) & np.isfinite(sides[1]).all(axis=1)
    lost = rows.filter(pa.array(~finite))
    if lost.num_rows:
        detail = "the encoder gives NaN or infinity for its query or its positive"
        rejected = rejects(work.stage, lost["row_id"], "nan_vector", detail, lost["anchor"])
        work.emit("rejects", rejected)
    return rows.filter(pa.array(finite)), (sides[0][finite], sides[1][finite])


def _rank(
    work: Work,
    searched: TrainPassages,
    queries: list[str],
    of: npt.NDArray[np.int32],
    rows: pa.Table,
    vectors: tuple[Vectors, Vectors] | None,
) -> tuple[Places, Scores, Scores]:
    """The passages of each query and their scores, best first; and the scores of the rows'
    positives.

    of: the query of each row. vectors: of the rows' anchors and positives.
    """
    depth, searches = _DEPTH + work.spec["own"], []
    if searched.words is not None:
        searches.append(bm25.search(searched.words, queries, depth))
    if vectors is None:
        assert searched.words is not None
        texts = [queries[query] for query in of]
        return *searches[0], bm25.score(searched.words, texts, rows["positive"].to_pylist())
    assert searched.vectors is not None
    anchors, positives = vectors
    query_vectors = anchors[np.unique(of, return_index=True)[1]]
    scores_of_positives = np.einsum("nd,nd->n", anchors, positives)
    searches.append(rankings.search_vectors(query_vectors, searched.blocks(), depth))
    if len(searches) == 1:
        return *searches[0], scores_of_positives
    worded, near = searches
    places, _ = fuse(near, worded)
    scores: Scores = np.zeros(places.shape, dtype=np.float32)
    for start in range(0, len(places), _QUERIES):
        some = slice(start, start + _QUERIES)
        scores[some] = np.einsum("nd,nkd->nk", query_vectors[some], searched.vectors[places[some]])
    return places, scores, scores_of_positives


def _without_answers(work: Work, rows: pa.Table, negatives: pa.Table) -> pa.Table:
    """The first `_DEPTH` negatives of each query, without passages that may answer it."""
    same = "passage_id" if work.config.source == "queries" else "doc_id"
    # A passage has a line break between paragraphs; a positive has its original white space.
    with connection(work) as db:
        db.register("found", negatives)
        db.register("rows", rows)
        return db.sql(
            rf"""SELECT query, rank, any_value(passage_id) AS passage_id, any_value(score) AS score
                FROM found JOIN (
                    SELECT passage_id, doc_id, replace(text, chr(10), ' ') AS text,
                        lower(context) AS context
                    FROM {work.inputs["passages"].sql("passages")}
                ) USING (passage_id)
                JOIN (
                    SELECT query, lower(anchor) AS anchor, own,
                        {_WORDS.format("lower(anchor)")} AS words,
                        regexp_replace(positive, '\s+', ' ', 'g') AS positive
                    FROM rows
                ) USING (query)
                GROUP BY query, rank HAVING NOT bool_or(
                    coalesce(own = {same}, FALSE)
                    OR contains(text, positive) OR contains(positive, text)
                    OR lower(text) = anchor OR list_contains(string_split(context, ' > '), anchor)
                    OR (words <> [] AND list_has_all({_WORDS.format("context")}, words)))
                QUALIFY row_number() OVER (PARTITION BY query ORDER BY rank)
                    <= {_DEPTH}
                ORDER BY query, rank"""
        ).to_arrow_table()


def _pick(
    k: int, of: npt.NDArray[np.int32], negatives: pa.Table
) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """The row of each negative that is taken, and these negatives, in order of rows and ranks.

    of: the query of each row. negatives: in order of queries and ranks.
    """
    starts, ends = (
        np.searchsorted(negatives["query"].to_numpy(), of, side=side) for side in ("left", "right")
    )
    sizes = (ends - starts).clip(max=k)
    row = np.repeat(np.arange(len(of)), sizes)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return row, negatives.take(pa.array(starts[row] + nth))


def _emit(work: Work, rows: pa.Table, row: npt.NDArray[np.int64], picked: pa.Table) -> None:
    """Emits the negatives with their texts. row: the row of each."""
    with connection(work) as db:
        db.register("picked", pa.table({"passage_id": picked["passage_id"].unique()}))
        passages = db.sql(
            f"""SELECT passage_id, context, text
                FROM {work.inputs["passages"].sql("passages")} SEMI JOIN picked USING (passage_id)
                ORDER BY passage_id"""
        ).to_arrow_table()
    place = np.searchsorted(passages["passage_id"].to_numpy(), picked["passage_id"].to_numpy())
    contexts, texts = (
        passages[name].take(pa.array(place)).to_pylist() for name in ("context", "text")
    )
    whole = np.zeros(rows.num_rows, dtype=np.bool_)
    if work.config.source == "queries":
        whole = seeding.text_ids(rows["positive"].to_pylist()) == rows["own"].to_numpy()
    negative_texts = [
        passage_text(context, text) if as_read else text
        for context, text, as_read in zip(contexts, texts, whole[row].tolist(), strict=True)
    ]
    first = np.searchsorted(row, row)
    columns = [rows["row_id"].take(pa.array(row)), np.arange(len(row)) - first + 1]
    columns += [picked["passage_id"], pa.array(negative_texts, pa.string()), picked["score"]]
    table = pa.table(dict(zip(NEGATIVES.names, columns, strict=True))).cast(NEGATIVES)
    work.emit("negatives", table)
    work.resources.progress(rows.num_rows, rows.num_rows, "rows")


STAGE = Stage(
    name="negatives",
    config=NegativesConfig,
    tables={"negatives": NEGATIVES},
    run=run,
    cut=Planned(plan),
    libraries=("torch", "transformers", "sentence-transformers", "bm25s", "PyStemmer"),
)
