"""The passages of train as negatives are searched among them: vectors in a file, and words."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.retrieval import bm25
from tercet.models.retrieval.bm25 import Bm25
from tercet.models.seeding import Ids
from tercet.models.text.passages import passage_text
from tercet.models.text.shingles import shared_words
from tercet.tasks.connections import connection
from tercet.tasks.corpus.held_out import held_out_shingles
from tercet.tasks.retrieval.passage_vectors import Vectors
from tercet.tasks.stage import BadInput, Work

# Passages compared at once, those whose texts are read at once, and those whose words are.
_BLOCK, _LOT, _SHARED = 65_536, 1_024, 8_192


@dataclass(frozen=True)
class TrainPassages:
    """The passages that negatives come from, in order of their ids.

    vectors: (passages, dimension), a memory map. Both are None where nothing is searched by them.
    """

    ids: Ids
    vectors: Vectors | None
    words: Bm25 | None

    def blocks(self) -> Iterator[Vectors]:
        """The vectors, some at once."""
        assert self.vectors is not None
        for start in range(0, len(self.vectors), _BLOCK):
            yield np.asarray(self.vectors[start : start + _BLOCK])


def train_passages(work: Work) -> TrainPassages:
    """The passages of train, with what `work.config.by` searches; none shares a shingle with a
    text of dev or test. Raises BadInput without any."""
    ids, there = _trained_on(work)
    if not len(ids):
        none = "no passage is in the split train"
        raise BadInput(
            f"negatives: {'every passage of train has words of dev or test' if there else none}: "
            "lower ingest.dev and ingest.test, add documents, or leave `negatives` out."
        )
    vectors = words = None
    if work.config.by != "bm25":
        ids, vectors = _laid_out(work, ids)
    if work.config.by != "vectors":
        words = bm25.build(_texts(work, ids))
    return TrainPassages(ids, vectors, words)


def _trained_on(work: Work) -> tuple[Ids, int]:
    """The ids of these passages, sorted; and how many are in the split train."""
    with connection(work) as db:
        known = held_out_shingles(db, work)
    columns = ["passage_id", "context", "text", "split"]
    found, there = [np.empty(0, np.uint64)], 0
    for batch in work.inputs["passages"].batches("passages", columns, _SHARED):
        train = batch.filter(pc.equal(batch["split"], "train"))
        contexts, texts = train["context"].to_pylist(), train["text"].to_pylist()
        whole = pa.array(map(passage_text, contexts, texts), pa.string())
        # Trained on in either form.
        shared, _ = shared_words(pa.concat_arrays([train["text"], whole]), known)
        found.append(np.delete(train["passage_id"].to_numpy(), shared % max(len(texts), 1)))
        there += len(texts)
    return np.sort(np.concatenate(found)), there


def _texts(work: Work, ids: Ids) -> Iterator[str]:
    """What is read of these passages, in order of their ids."""
    with connection(work) as db:
        db.register("wanted", pa.table({"passage_id": ids}))
        batches = db.sql(
            f"""SELECT context, text FROM {work.inputs["passages"].sql("passages")}
                JOIN wanted USING (passage_id) ORDER BY passage_id"""
        ).to_arrow_reader(_LOT)
        for batch in batches:
            both = zip(batch["context"].to_pylist(), batch["text"].to_pylist(), strict=True)
            yield from (passage_text(context, text) for context, text in both)


def _laid_out(work: Work, ids: Ids) -> tuple[Ids, Vectors]:
    """Those of these passages that have a vector, and a memory map of their vectors."""
    rows = work.inputs["passage_vectors"]
    there = rows.table("passage_vectors", ["passage_id"])["passage_id"].to_numpy()
    ids = np.intersect1d(ids, there)
    vectors: Vectors = np.zeros((0, 1), np.float32)
    for batch in rows.batches("passage_vectors", ["passage_id", "vector"], _BLOCK):
        of_batch = batch["passage_id"].to_numpy()
        flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
        flat = flat.reshape(batch.num_rows, -1)
        if not len(vectors):
            # A file without a name disappears with the process, however that ends.
            with tempfile.TemporaryFile(dir=work.scratch) as unnamed:
                vectors = np.memmap(unnamed, np.float32, "w+", shape=(len(ids), flat.shape[1]))
        wanted = np.isin(of_batch, ids)
        vectors[np.searchsorted(ids, of_batch[wanted])] = flat[wanted]
    return ids, vectors
