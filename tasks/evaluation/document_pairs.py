"""Which document pairs of a split are measured: the same for the choice and the evaluation."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.storage.rows import Rows


def pairs_of_split(rows: Rows, split: str, max_pairs: int, seed: int) -> pa.Table:
    """pair_id, query and answer of a split, at most `max_pairs` of them, drawn by their ids.

    In order of pair_id.
    """
    table = rows.table("document_pairs", ["pair_id", "query", "answer", "split"])
    pairs = table.filter(pc.equal(table["split"], split)).drop_columns(["split"])
    pairs = pairs.sort_by("pair_id")
    if pairs.num_rows > max_pairs:
        ids = pairs["pair_id"].to_numpy().astype(np.uint64)
        draws = seeding.draws(seed, "evaluate", ids)
        pairs = pairs.take(pa.array(np.sort(np.argsort(draws, kind="stable")[:max_pairs])))
    return pairs
