"""Definitions that nothing trains on, to measure how well definitions find their entries.

Which ones does not depend on a run's seed, so that the same definitions measure every training.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.tasks.same_words import same_words

SCHEMA = pa.schema(
    [
        ("row_id", pa.uint64()),
        ("corpus", pa.string()),
        ("anchor", pa.string()),
        ("entries", pa.list_(pa.int32())),
    ]
)
"""Table `held_out_definitions`. Definitions that nothing trains on (`corpora[].held_out`).

Columns:
    row_id: as in `labelled`
    corpus: the corpus's name in the recipe
    anchor: the definition
    entries: its entries (→ `entries.entry_id`), each of which has another definition in
        `labelled`
"""
# Of a corpus's definitions, where the recipe does not say.
SHARE = 0.02

# A drawn definition stays in training where one of its entries has no other that was not drawn,
# and where a labelled row has the same words too.
_CHOOSE = r"""
CREATE TEMP TABLE held_out AS
WITH definitions AS (SELECT corpus, row_id, entries, drawn, {words} AS said FROM {rows}
                     WHERE entries IS NOT NULL),
texts AS (SELECT unnest([anchor, positive, negative]) AS anchor FROM {rows}),
once AS (SELECT {words} AS said FROM texts WHERE anchor IS NOT NULL
         GROUP BY said HAVING count(*) = 1),
owned AS (SELECT corpus, row_id, unnest(entries) AS entry, drawn FROM definitions),
kept AS (SELECT DISTINCT corpus, entry FROM owned WHERE NOT drawn),
needed AS (SELECT corpus, row_id FROM owned ANTI JOIN kept USING (corpus, entry))
SELECT corpus, row_id FROM definitions SEMI JOIN once USING (said)
ANTI JOIN needed USING (corpus, row_id) WHERE drawn
"""


def drawn(share: float | None, ids: Ids) -> npt.NDArray[np.bool_]:
    """Which rows might be held out. share: None is `SHARE`."""
    return seeding.uniforms(0, "held-out definitions", ids) < (SHARE if share is None else share)


def choose(db: Any, rows: str) -> None:
    """Makes the table that `held` looks at. rows: SQL of the kept rows, with `drawn`."""
    db.execute(_CHOOSE.format(rows=rows, words=same_words("anchor")))


def held(db: Any, rows: pa.Table) -> pa.Array:
    """Of each row, all of one corpus and at least one, whether it is held out."""
    corpus = rows["corpus"][0].as_py()
    query = "SELECT row_id FROM held_out WHERE corpus = $corpus"
    chosen = db.sql(query, params={"corpus": corpus}).to_arrow_table()["row_id"]
    return pc.is_in(rows["row_id"].combine_chunks(), chosen.combine_chunks())
