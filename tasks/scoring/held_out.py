"""Candidates that say what stands in dev or test: they must not be trained on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.models.seeding import Ids
from tercet.storage.rows import BATCH_ROWS
from tercet.tasks.corpus import splits
from tercet.tasks.stage import Work


def find_held_out(connection: Any, work: Work) -> None:
    """Table `held_out`: candidates that share a mark with dev or test, and the words of it."""
    connection.execute("CREATE TEMP TABLE held_out(candidate_id UBIGINT, words VARCHAR)")
    parts = [np.unique(found) for found in _marks(connection, work)]
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))
    del parts
    if not len(known):
        return
    candidates = work.inputs["candidates"]
    for batch in candidates.batches("candidates", ["candidate_id", "text"], BATCH_ROWS):
        rows, words = splits.shared_words(batch["text"], known)
        if len(rows):
            ids = batch["candidate_id"].take(pa.array(rows))
            connection.register("found", pa.table({"candidate_id": ids, "words": words}))
            connection.execute("INSERT INTO held_out SELECT candidate_id, words FROM found")
            connection.unregister("found")


def _marks(connection: Any, work: Work) -> Iterator[Ids]:
    """Marks of the sentences of dev and test, along their paragraphs, and of their pairs' texts."""
    reader = connection.sql(
        f"""SELECT text, doc_id, paragraph, position
            FROM {work.inputs["sentences"].sql("sentences")}
            WHERE split <> 'train' ORDER BY doc_id, paragraph, position"""
    ).to_arrow_reader(BATCH_ROWS)
    before: pa.Table | None = None
    for batch in reader:
        rows = pa.Table.from_batches([batch])
        if before is not None:
            rows = pa.concat_tables([before, rows])
        # An 8-gram that begins in one batch may end in the next.
        before = rows.slice(max(rows.num_rows - splits.GRAM, 0))
        document, paragraph, position = (rows[i].to_numpy() for i in (1, 2, 3))
        # Over a sentence that ingest left out there is no 8-gram.
        apart = (np.diff(document) != 0) | (np.diff(paragraph) != 0) | (np.diff(position) != 1)
        runs = np.concatenate([[0], np.cumsum(apart)]).astype(np.int32)
        yield splits.marks(rows["text"].combine_chunks(), runs)[0]
    if "document_pairs" not in work.inputs:
        return
    pairs = work.inputs["document_pairs"].sql("document_pairs")
    reader = connection.sql(
        f"SELECT unnest([query, answer]) AS text FROM {pairs} WHERE split <> 'train'"
    ).to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        yield splits.marks(batch["text"], np.arange(batch.num_rows, dtype=np.int32))[0]
