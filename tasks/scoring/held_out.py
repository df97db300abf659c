"""Candidates that repeat text of dev or test, which must not be trained on."""

from typing import Any

import pyarrow as pa

from tercet.models.text.shingles import shared_words
from tercet.tasks.corpus.held_out import held_out_shingles
from tercet.tasks.stage import Work

# Candidates whose words are in memory at once; with their anchors, which may be passages as well.
_ROWS = 8_192


def find_held_out(db: Any, work: Work) -> None:
    """Table `held_out`: candidates that share a shingle with dev or test, and its words."""
    db.execute("CREATE TEMP TABLE held_out(candidate_id UBIGINT, words VARCHAR)")
    known = held_out_shingles(db, work)
    if not len(known):
        return
    candidates = work.inputs["candidates"]
    for batch in candidates.batches("candidates", ["candidate_id", "anchor", "text"], _ROWS):
        # Its own anchor is trained on as well.
        both = pa.concat_arrays([batch["text"], batch["anchor"].fill_null("")])
        rows, words = shared_words(both, known)
        if len(rows):
            ids = batch["candidate_id"].take(pa.array(rows % batch.num_rows))
            db.register("found", pa.table({"candidate_id": ids, "words": words}))
            db.execute("INSERT INTO held_out SELECT candidate_id, words FROM found")
            db.unregister("found")
