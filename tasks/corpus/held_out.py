"""Shingles of held-out texts: no text that shares one may be trained on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.models.seeding import Ids
from tercet.models.text.shingles import GRAM, shingles
from tercet.storage.rows import BATCH_ROWS
from tercet.tasks.stage import Work


def held_out_shingles(connection: Any, work: Work) -> Ids:
    """The shingles of dev and test, each once, sorted, but for those that train has too.

    Of the slot `sentences`, and of `document_pairs` where there is that slot. What train shares
    with dev or test are set phrases (`set_phrases.py`): `ingest` leaves it nothing else.
    """
    parts = [np.unique(found) for found in _shingles(connection, work, "<> 'train'")]
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))
    for found in _shingles(connection, work, "= 'train'") if len(known) else ():
        known = known[~np.isin(known, found)]
    return known


def _shingles(connection: Any, work: Work, splits: str) -> Iterator[Ids]:
    """Shingles of some splits' sentences, along their paragraphs, and of their pairs' texts."""
    reader = connection.sql(
        f"""SELECT text, doc_id, paragraph, position
            FROM {work.inputs["sentences"].sql("sentences")}
            WHERE split {splits} ORDER BY doc_id, paragraph, position"""
    ).to_arrow_reader(BATCH_ROWS)
    before: pa.Table | None = None
    for batch in reader:
        rows = pa.Table.from_batches([batch])
        if before is not None:
            rows = pa.concat_tables([before, rows])
        # An 8-gram that begins in one batch may end in the next.
        before = rows.slice(max(rows.num_rows - GRAM, 0))
        document, paragraph, position = (rows[i].to_numpy() for i in (1, 2, 3))
        # No 8-gram spans a sentence that ingest left out.
        apart = (np.diff(document) != 0) | (np.diff(paragraph) != 0) | (np.diff(position) != 1)
        runs = np.concatenate([[0], np.cumsum(apart)]).astype(np.int32)
        yield shingles(rows["text"].combine_chunks(), runs)[0]
    if "document_pairs" not in work.inputs:
        return
    pairs = work.inputs["document_pairs"].sql("document_pairs")
    reader = connection.sql(
        f"SELECT unnest([query, answer]) AS text FROM {pairs} WHERE split {splits}"
    ).to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        yield shingles(batch["text"], np.arange(batch.num_rows, dtype=np.int32))[0]
