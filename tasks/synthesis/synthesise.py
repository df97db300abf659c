"""Stage `synthesise`: the texts that one method generates from anchors or passages.

Each method has its own artifact, whose version covers no other method's module.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.models.generation import GENERATIONS, Method, MethodInput, Pool, generation_ids
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.rejects import isolated, refused
from tercet.tasks.stage import EachPart, Stage, Work, connection
from tercet.tasks.synthesis.methods import SynthesiseConfig

NAME = "synthesise"
# Slots that some methods read, with rows of the same sentences.
ALIGNED = ("mentions", "sentence_categories")

# The columns that methods see, and the columns that decide which rows are asked about.
_COLUMNS = {
    "sentences": [
        *("sentence_id", "text", "corpus", "doc_id", "paragraph", "position", "n_words", "split"),
    ],
    "passages": ["passage_id", "text", "context", "corpus", "source", "doc_id", "split"],
}
_MENTIONS = [
    *("mention_id", "node_id", "sentence_id", "kind", "text", "type", "value", "unit"),
    *("of_mention_id", "start", "end"),
]
_ROWS = 20_000
# The draw of passages, the same for all methods.
_PASSAGES = "sample.passages"


def uses(config: SynthesiseConfig) -> tuple[Method]:
    """The method."""
    return (config.described,)


def run(work: Work) -> None:
    """Emits the method's generations for the anchors of one part of the sentences.

    Slots: sentences (the part), anchors; mentions, sentence_categories, graph and pool if the
    method needs them. For a method over passages: passages (the part), and every_passage if only
    some are drawn or the method reads all. A row at which the method fails is a reject with the
    reason `error`.
    """
    method = work.config.described
    for outputs in generated(work):
        work.emit("generations", _generations(work, method, outputs))


def generated(work: Work) -> Iterator[pa.Table]:
    """The method's output for the anchors or passages of one part, as tables of GENERATED or ASKED.

    Raises as `run` does. No language model is asked.
    """
    config: SynthesiseConfig = work.config
    method = config.described
    params = method.params.model_validate(config.params)
    read = _read_rows(work)
    mentions = None
    if "mentions" in method.needs:
        mentions = work.inputs["mentions"].table("mentions", _MENTIONS)
    categories = None
    if "sentence_categories" in method.needs:
        categories = work.inputs["sentence_categories"].table("sentence_categories")
    replacements = None
    if method.open_graph is not None:
        # Rebuilding it for each part takes seconds.
        replacements = work.once(_open_graph, method.open_graph)
    places = None
    if method.open_passages is not None:
        places = work.once(_open_passages, method.open_passages)
    pool = _pool(work) if "pool" in method.needs else None

    def refuse(rows: pa.Table) -> Callable[[int, Exception], None]:
        def one(row: int, error: Exception) -> None:
            row_id, text = rows["sentence_id"][row].as_py(), rows["text"][row].as_py()
            work.emit("rejects", refused(NAME, row_id, error, text, method.name))

        return one

    for start, stop in _windows(read["doc_id"].to_numpy(), _ROWS):
        rows = read.slice(start, stop - start)
        rows = rows.filter(pc.equal(rows["split"], "train")).combine_chunks()
        ids = rows["sentence_id"].to_numpy()
        mask = _row_mask(work, rows)
        if config.corpora:
            mask &= np.isin(rows["corpus"].to_pylist(), config.corpora)
        if config.weight < 1:
            drawn = seeding.uniforms(work.seed, f"{config.method}.weight", ids)
            mask &= drawn < config.weight
        anchors = np.flatnonzero(mask)
        if len(anchors):
            row_mentions = mentions
            if mentions is not None:
                row_mentions = mentions.filter(
                    pc.is_in(mentions["sentence_id"], rows["sentence_id"])
                )
            whole = MethodInput(
                rows, anchors, row_mentions, replacements, pool, categories, places, config.language
            )
            yield from isolated(anchors, _generator(method, params, work.seed, whole), refuse(rows))
        if not method.prompted:
            work.resources.progress(stop, len(read), method.each)


def _read_rows(work: Work) -> pa.Table:
    """The rows of one part; a passage's id is named sentence_id."""
    each = work.config.described.each
    rows = work.inputs[each].table(each, _COLUMNS[each])
    return rows.rename_columns(["sentence_id", *rows.column_names[1:]])


def _row_mask(work: Work, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Which of these rows are anchors, or passages that are asked about."""
    if work.config.described.each == "sentences":
        return anchor_mask(rows, work.inputs["anchors"].table("anchors"), work.seed)
    if work.config.passages is None:
        return np.ones(len(rows), dtype=np.bool_)
    drawn = seeding.draws(work.seed, _PASSAGES, rows["sentence_id"].to_numpy())
    return np.asarray(drawn <= work.once(_threshold, work.config.passages))


def _threshold(work: Work, count: int) -> np.uint64:
    """The largest draw among the passages of train that are asked about."""
    every = work.inputs["every_passage"].table("passages", ["passage_id", "split"])
    ids = every.filter(pc.equal(every["split"], "train"))["passage_id"].to_numpy()
    drawn = seeding.draws(work.seed, _PASSAGES, ids)
    if count >= len(drawn):
        return np.uint64(2**64 - 1)
    return np.uint64(np.partition(drawn, count - 1)[count - 1])


def _generator(
    method: Method, params: Any, seed: int, whole: MethodInput
) -> Callable[[npt.NDArray[Any]], pa.Table]:
    """The method's generations for some of the anchors."""
    return lambda some: method.generate(replace(whole, anchors=some), params, seed)


def _windows(doc_ids: npt.NDArray[Any], rows: int) -> Iterator[tuple[int, int]]:
    """Spans of whole documents, each the shortest that has `rows` rows or more."""
    total = len(doc_ids)
    ends = np.append(np.flatnonzero(doc_ids[1:] != doc_ids[:-1]) + 1, total)
    start = 0
    while start < total:
        stop = int(ends[min(int(np.searchsorted(ends, start + rows)), len(ends) - 1)])
        yield start, stop
        start = stop


def _generations(work: Work, method: Method, outputs: pa.Table) -> pa.Table:
    """The rows of `GENERATIONS`, numbered within each sentence."""
    rows = outputs.num_rows
    raws: Sequence[str] = outputs["raw"].to_pylist()
    names = [method.name] * rows
    generation = generation_ids(method.name, outputs["sentence_id"].to_numpy(), raws)
    columns: dict[str, Any] = {
        "generation_id": pa.array(generation, pa.uint64()),
        "purpose": pa.array([method.purpose] * rows, pa.string()),
        "relation": pa.array([method.relation] * rows, pa.string()),
        "sentence_id": outputs["sentence_id"],
        "method": pa.array(names, pa.string()),
        "raw": outputs["raw"],
        "finish_reason": pa.array(["stop"] * rows, pa.string()),
        "n_tokens": pa.array([len(raw.split()) for raw in raws], pa.int32()),
        "detail": outputs["detail"],
    }
    if method.each == "passages":
        read = _read_rows(work)
        at = pc.index_in(outputs["sentence_id"], read["sentence_id"].combine_chunks())
        columns["passage"] = read["text"].combine_chunks().take(at.combine_chunks())
        columns["as_anchor"] = pa.repeat(method.as_anchor, rows)
    arrays = [columns.get(f.name, pa.nulls(rows, f.type)) for f in GENERATIONS]
    return pa.Table.from_arrays(arrays, schema=GENERATIONS)


def _open_passages(work: Work, open_passages: Callable[..., Any]) -> Any:
    return open_passages(work.inputs["every_passage"].batches("passages", ["source", "context"]))


def _open_graph(work: Work, open_graph: Callable[..., Any]) -> Any:
    graph = work.inputs["graph"]
    return open_graph(graph.table("kg_nodes"), graph.batches("kg_edges"))


def _pool(work: Work) -> Pool:
    """The hash ring of all anchors, 24 bytes each."""
    source, shares = work.inputs["pool"], work.inputs["anchors"].table("anchors")
    ids: list[npt.NDArray[np.uint64]] = []
    docs: list[npt.NDArray[np.uint64]] = []
    for file in source.files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        anchors = anchor_mask(table, shares, work.seed)
        ids.append(table["sentence_id"].to_numpy()[anchors])
        docs.append(table["doc_id"].to_numpy()[anchors])
    sentence_ids = np.concatenate([*ids, np.zeros(0, np.uint64)]).astype(np.uint64)
    doc_ids = np.concatenate([*docs, np.zeros(0, np.uint64)]).astype(np.uint64)
    ring = seeding.mix(sentence_ids)
    order = np.argsort(ring)
    texts = partial(_texts, work)
    return Pool(ring[order], sentence_ids[order], doc_ids[order], texts)


def _texts(work: Work, ids: seeding.Ids) -> list[str]:
    """The texts of sentences by id, in the order asked for."""
    rows = pa.table({"place": pa.array(np.arange(len(ids))), "sentence_id": pa.array(ids)})
    with connection(work, threads=1) as db:
        db.register("wanted", rows)
        query = f"""
            SELECT w.place, any_value(s.text) AS text
            FROM wanted w JOIN {work.inputs["pool"].sql("sentences")} s USING (sentence_id)
            GROUP BY w.place ORDER BY w.place"""
        texts = db.sql(query).to_arrow_table()
    return list(texts["text"].to_pylist())


STAGE = Stage(
    name=NAME,
    config=SynthesiseConfig,
    tables={"generations": GENERATIONS},
    run=run,
    cut=EachPart("sentences", aligned=ALIGNED),
    libraries=("lemminflect",),
    uses=uses,
)
OVER_PASSAGES = replace(STAGE, cut=EachPart("passages"))
