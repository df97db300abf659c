"""Exports a run's search as a folder that works without Tercet."""

import inspect
import json
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.flows.exports import search_alone
from tercet.flows.exports.writing import whole_directory
from tercet.flows.results.encoder_form import needs_trust
from tercet.flows.results.search import AFTER, PASSAGES, Passages, load_as_made, vectors_of
from tercet.models.retrieval import words
from tercet.models.retrieval.bm25 import Bm25
from tercet.models.retrieval.rankings import NONE, WEIGHT
from tercet.models.text.words import UNSPACED_LETTERS
from tercet.storage.rows import Rows
from tercet.storage.store import Store
from tercet.tasks.retrieval import passage_vectors
from tercet.tasks.stage import BadInput

_Mask: TypeAlias = npt.NDArray[np.bool_]

_COLUMNS = {"id": pa.uint64(), "path": pa.string(), "context": pa.string(), "text": pa.string()}
_BATCH = 4_096


def export_search(store: Store, passages: Passages, target: Path) -> int:
    """Writes encoder, passages, vectors, BM25 index and `search.py`; returns how many passages.

    `passages.parquet` has a row per passage, in the order of `vectors.npy` and the index. Passages
    that the run's search leaves out, or that have no vector, are not written.
    Raises: BadInput for a run whose passages have no vectors by its encoder, or no words, and for
        an existing target.
    """
    if AFTER in passages.missing:
        raise BadInput("not_reached", passages.missing[AFTER])
    if passages.index.index is None:
        raise BadInput(
            "no_rows", "The passages have no words to search by: choose another run with --run."
        )

    from tercet.models.encoders.encoder import save_encoder

    encoded = vectors_of(store, passages.run, AFTER)
    by_vectors = encoded.artifact.rows()
    # Both tables list their ids in the same order.
    ids, vector_ids = (
        rows.table(name, ["passage_id"])["passage_id"].to_numpy()
        for rows, name in (
            (passages.rows, PASSAGES),
            (by_vectors, passage_vectors.STAGE.name),
        )
    )
    left_out = np.array([*passages.left_out], ids.dtype)
    chosen = np.isin(ids, vector_ids) & ~np.isin(ids, left_out)
    with whole_directory(target) as folder:
        save_encoder(load_as_made(encoded.folder, encoded.config), folder / "encoder")
        for file in (folder / "encoder").rglob("*.safetensors"):
            # safetensors writes files that only their owner can read.
            file.chmod(0o644)
        vectors = _write_vectors(folder / "vectors.npy", by_vectors, ~np.isin(vector_ids, left_out))
        _write_passages(folder / "passages.parquet", passages, chosen, vectors)
        index = _restrict(passages.index, np.flatnonzero(chosen))
        corpus = (row for batch in _batches(passages, chosen) for row in batch.to_pylist())
        index.save(folder / "bm25", corpus=corpus, show_progress=False)
        settings = {"weight": WEIGHT, "english": passages.index.english}
        settings["own_code"] = needs_trust(folder / "encoder")
        (folder / "search.json").write_text(json.dumps(settings), encoding="utf-8")
        _write_code(folder)
    return int(chosen.sum())


def _write_vectors(path: Path, rows: Rows, chosen: _Mask) -> Any:
    """Writes the chosen vectors; returns them, mapped from the file."""
    begin = 0
    with path.open("wb") as file:
        for block in passage_vectors.read_blocks(rows):
            if not begin:
                shape = (int(chosen.sum()), block.shape[1])
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(block[chosen[begin : begin + len(block)]].astype("<f4").tobytes())
            begin += len(block)
    return np.load(path, mmap_mode="r")


def _write_passages(path: Path, passages: Passages, chosen: _Mask, vectors: Any) -> None:
    place = 0
    kind = pa.list_(pa.float32(), vectors.shape[1])
    schema = pa.schema([*_COLUMNS.items(), ("place", pa.int64()), ("vector", kind)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(passages, chosen):
            end = place + batch.num_rows
            flat = pa.array(np.asarray(vectors[place:end]).reshape(-1))
            places = pa.array(np.arange(place, end))
            lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            writer.write_table(pa.table([*batch.columns, places, lists], schema=schema))
            place = end


def _batches(passages: Passages, chosen: _Mask) -> Iterator[pa.RecordBatch]:
    """The chosen passages, with the columns of the file."""
    begin = 0
    columns = ["passage_id", "path", "context", "text"]
    for batch in passages.rows.batches(PASSAGES, columns, _BATCH):
        some = pa.array(chosen[begin : begin + batch.num_rows])
        begin += batch.num_rows
        yield batch.filter(some).rename_columns(list(_COLUMNS))


def _restrict(bm25: Bm25, places: npt.NDArray[np.int64]) -> Any:
    """The index of the documents at these places; their scores stay those of the whole index."""
    old = bm25.index.scores
    renumbered = np.full(bm25.documents, NONE, dtype=old["indices"].dtype)
    renumbered[places] = np.arange(len(places))
    indices = renumbered[old["indices"]]
    restricted = indices != NONE
    starts = np.concatenate([[0], np.cumsum(restricted)])[old["indptr"]]
    index = copy(bm25.index)
    index.scores = {
        "data": old["data"][restricted],
        "indices": indices[restricted],
        "indptr": starts,
        "num_docs": len(places),
    }
    return index


def _write_code(folder: Path) -> None:
    """Writes `search.py`, and `words.py`, which splits texts as for the index."""
    alone, split = inspect.getsource(search_alone), inspect.getsource(words)
    alone = alone.replace(f"from {words.__name__} import", "from words import")
    letters = f"UNSPACED_LETTERS = {UNSPACED_LETTERS!a}"
    split = split.replace("from tercet.models.text.words import UNSPACED_LETTERS", letters)
    (folder / "search.py").write_text(alone, encoding="utf-8")
    (folder / "words.py").write_text(split, encoding="utf-8")
