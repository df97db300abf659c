"""Stage `synthesise`: what one method generates from the anchors, one artifact each.

A method's version covers the module of its function and no other method's.
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
from pydantic import model_validator

from tercet.models import seeding
from tercet.models.generation import GENERATIONS, Method, MethodInput, Pool, generation_ids
from tercet.tasks.connections import connection
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.isolation import isolated, refused
from tercet.tasks.stage import Stage, Work
from tercet.tasks.synthesis.methods import MethodSettings, check_params, method_of

NAME = "synthesise"
# Slots whose rows come from the same sentences, of the methods that read them.
ALIGNED = ("mentions", "sentence_categories")

# The columns that decide which sentences are anchors, and those that generators see.
_SENTENCES = [
    *("sentence_id", "text", "corpus", "doc_id", "paragraph", "position", "n_words", "split"),
]
_MENTIONS = [
    *("mention_id", "node_id", "sentence_id", "kind", "text", "type", "value", "unit"),
    *("of_mention_id", "start", "end"),
]
_ROWS = 20_000


class SynthesiseConfig(MethodSettings):
    """One method, with all its parameters filled in."""

    method: str

    @model_validator(mode="after")
    def _filled(self) -> "SynthesiseConfig":
        # In place, since the config never changes once it is made.
        self.params.update(check_params(self.method, self))
        return self

    @property
    def kind(self) -> str:
        """The method's own name, or that of ours which it is under another name."""
        return self.like or self.method

    @property
    def described(self) -> Method:
        """The method."""
        return method_of(self.method, self)


def uses(config: SynthesiseConfig) -> tuple[Method]:
    """The method."""
    return (config.described,)


def run(work: Work) -> None:
    """Emits the method's generations for the anchors of one part of the sentences.

    Slots: sentences (the part), anchors; mentions, sentence_categories, graph and pool where the
    method needs them. An anchor at which the method fails is a reject with the reason `error`.
    """
    method = work.config.described
    for said in generated(work):
        work.emit("generations", _generations(method, said))


def generated(work: Work) -> Iterator[pa.Table]:
    """What the method gives for the anchors of one part, as tables of GENERATED or ASKED.

    Raises as `run` does. No language model is asked.
    """
    config: SynthesiseConfig = work.config
    method = config.described
    params = method.params.model_validate(config.params)
    shares = work.inputs["anchors"].table("anchors")
    sentences = work.inputs["sentences"].table("sentences", _SENTENCES)
    mentions = None
    if "mentions" in method.needs:
        mentions = work.inputs["mentions"].table("mentions", _MENTIONS)
    categories = None
    if "sentence_categories" in method.needs:
        categories = work.inputs["sentence_categories"].table("sentence_categories")
    replacements = None
    if method.open_graph is not None:
        # Rebuilding it for each part takes seconds.
        replacements = work.once(_opened, method.open_graph)
    pool = _pool(work, shares) if "pool" in method.needs else None

    def refuse(rows: pa.Table) -> Callable[[int, Exception], None]:
        def one(row: int, error: Exception) -> None:
            row_id, text = rows["sentence_id"][row].as_py(), rows["text"][row].as_py()
            work.emit("rejects", refused(NAME, row_id, error, text, method.name))

        return one

    for start, stop in _windows(sentences["doc_id"].to_numpy(), _ROWS):
        rows = sentences.slice(start, stop - start)
        rows = rows.filter(pc.equal(rows["split"], "train")).combine_chunks()
        ids = rows["sentence_id"].to_numpy()
        mask = anchor_mask(rows, shares, work.seed)
        if config.corpora:
            mask &= np.isin(rows["corpus"].to_pylist(), config.corpora)
        if config.weight < 1:
            drawn = seeding.uniforms(work.seed, f"{config.method}.weight", ids)
            mask &= drawn < config.weight
        anchors = np.flatnonzero(mask)
        if len(anchors):
            known = mentions
            if mentions is not None:
                known = mentions.filter(pc.is_in(mentions["sentence_id"], rows["sentence_id"]))
            whole = MethodInput(rows, anchors, known, replacements, pool, categories)
            yield from isolated(anchors, _generator(method, params, work.seed, whole), refuse(rows))
        if not method.prompted:
            work.resources.progress(stop, len(sentences), "sentences")


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


def _generations(method: Method, said: pa.Table) -> pa.Table:
    """The rows of `GENERATIONS`, numbered within each sentence."""
    rows = said.num_rows
    raws: Sequence[str] = said["raw"].to_pylist()
    names = [method.name] * rows
    generation = generation_ids(method.name, said["sentence_id"].to_numpy(), raws)
    columns: dict[str, Any] = {
        "generation_id": pa.array(generation, pa.uint64()),
        "purpose": pa.array([method.purpose] * rows, pa.string()),
        "relation": pa.array([method.relation] * rows, pa.string()),
        "sentence_id": said["sentence_id"],
        "method": pa.array(names, pa.string()),
        "raw": said["raw"],
        "finish_reason": pa.array(["stop"] * rows, pa.string()),
        "n_tokens": pa.array([len(raw.split()) for raw in raws], pa.int32()),
        "detail": said["detail"],
    }
    arrays = [columns.get(f.name, pa.nulls(rows, f.type)) for f in GENERATIONS]
    return pa.Table.from_arrays(arrays, schema=GENERATIONS)


def _opened(work: Work, open_graph: Callable[..., Any]) -> Any:
    graph = work.inputs["graph"]
    return open_graph(graph.table("kg_nodes"), graph.batches("kg_edges"))


def _pool(work: Work, shares: pa.Table) -> Pool:
    """The hash ring of all anchors, 24 bytes each; what is drawn from it is encoded anyway."""
    source = work.inputs["pool"]
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


def _texts(work: Work, wanted: seeding.Ids) -> list[str]:
    """The texts of sentences by id, in the order asked for."""
    rows = pa.table({"place": pa.array(np.arange(len(wanted))), "sentence_id": pa.array(wanted)})
    with connection(work, threads=1) as db:
        db.register("wanted", rows)
        query = f"""
            SELECT w.place, any_value(s.text) AS text
            FROM wanted w JOIN {work.inputs["pool"].sql("sentences")} s USING (sentence_id)
            GROUP BY w.place ORDER BY w.place"""
        found = db.sql(query).to_arrow_table()
    return list(found["text"].to_pylist())


STAGE = Stage(
    name=NAME,
    config=SynthesiseConfig,
    tables={"generations": GENERATIONS},
    run=run,
    each="sentences",
    aligned=ALIGNED,
    uses=uses,
)
