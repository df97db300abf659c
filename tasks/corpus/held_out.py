"""Held-out data: shingles of dev and test, and definitions that are drawn for measuring."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text.shingles import GRAM, shingles
from tercet.storage.rows import BATCH_ROWS
from tercet.tasks.stage import Work


def held_out_shingles(connection: Any, work: Work) -> Ids:
    """The distinct shingles of dev and test, sorted, without those of train.

    Reads the slots `sentences` and, if there is one, `document_pairs`. After `ingest`, only set
    phrases (`gather.py`) are shared by train and dev or test.
    """
    parts = [np.unique(part) for part in _shingles(connection, work, "<> 'train'")]
    held_out = np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))
    for part in _shingles(connection, work, "= 'train'") if len(held_out) else ():
        held_out = held_out[~np.isin(held_out, part)]
    return held_out


def _shingles(connection: Any, work: Work, splits: str) -> Iterator[Ids]:
    """Shingles of some splits' sentences, by paragraph, and of their pairs' texts."""
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
        # An 8-gram may begin in one batch and end in the next.
        before = rows.slice(max(rows.num_rows - GRAM, 0))
        document, paragraph, position = (rows[i].to_numpy() for i in (1, 2, 3))
        # No 8-gram spans a sentence that `ingest` left out.
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


# Held-out definitions measure how well definitions find their entries. They do not depend on a
# run's seed, so that all trainings are measured by the same definitions.


def same_words(column: str) -> str:
    """SQL for a text's words (letters and digits) in lower case, one space apart."""
    return rf"trim(regexp_replace(lower({column}), '[^\p{{L}}\p{{N}}]+', ' ', 'g'))"


HELD_OUT_DEFINITIONS = pa.schema(
    [
        ("row_id", pa.uint64()),
        ("corpus", pa.string()),
        ("anchor", pa.string()),
        ("entries", pa.list_(pa.int32())),
    ]
)
"""Table `held_out_definitions`. Definitions on which nothing trains (`corpora[].held_out`).

Key: `row_id`, `corpus`.

Columns:
    row_id: as in `labelled`
    corpus: the corpus's name in the recipe
    anchor: the definition
    entries: its entries (→ `entries.entry_id`), each of which has another definition in
        `labelled`
"""
# The default share of a corpus's definitions.
SHARE = 0.02

# A drawn definition stays in training if one of its entries has no definition that was not drawn,
# or if another labelled row has the same words.
_CHOOSE = r"""
CREATE TEMP TABLE held_out AS
WITH definitions AS (SELECT corpus, row_id, entries, drawn, {words} AS words FROM {rows}
                     WHERE entries IS NOT NULL),
texts AS (SELECT unnest([anchor, positive, negative]) AS anchor FROM {rows}),
written AS (SELECT {words} AS words FROM texts WHERE anchor IS NOT NULL),
once AS (SELECT words FROM written SEMI JOIN (FROM definitions WHERE drawn) USING (words)
         GROUP BY words HAVING count(*) = 1),
owned AS (SELECT corpus, row_id, unnest(entries) AS entry, drawn FROM definitions),
kept AS (SELECT DISTINCT corpus, entry FROM owned WHERE NOT drawn),
needed AS (SELECT corpus, row_id FROM owned ANTI JOIN kept USING (corpus, entry))
SELECT corpus, row_id FROM definitions SEMI JOIN once USING (words)
ANTI JOIN needed USING (corpus, row_id) WHERE drawn
"""


def are_drawn(share: float | None, ids: Ids) -> npt.NDArray[np.bool_]:
    """Whether each row is drawn to be held out. share: None: `SHARE`."""
    return seeding.uniforms(0, "held-out definitions", ids) < (SHARE if share is None else share)


def choose_held_out(db: Any, rows: str) -> None:
    """Makes the table `held_out` for `held_out_definitions`. rows: SQL of the kept rows, with
    `drawn`.
    """
    db.execute(_CHOOSE.format(rows=rows, words=same_words("anchor")))


def held_out_definitions(db: Any, rows: pa.Table) -> pa.Array:
    """Whether each row is held out. rows: of one corpus, at least one."""
    corpus = rows["corpus"][0].as_py()
    query = "SELECT row_id FROM held_out WHERE corpus = $corpus"
    chosen = db.sql(query, params={"corpus": corpus}).to_arrow_table()["row_id"]
    return pc.is_in(rows["row_id"].combine_chunks(), chosen.combine_chunks())
