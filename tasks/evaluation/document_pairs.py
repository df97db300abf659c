"""Draws the pairs of a split to measure, alike for `choose` and `evaluate`."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.seeding import sample
from tercet.storage.rows import Rows

_COLUMNS = ["pair_id", "query", "answer", "split"]


def pairs_of_split(rows: Rows, split: str, max_pairs: int, seed: int) -> pa.Table:
    """pair_id, query and answer of a split, at most `max_pairs` of them, drawn by their ids.

    In order of pair_id.
    """
    table = rows.table("document_pairs", _COLUMNS)
    return _draw(table.filter(pc.equal(table["split"], split)), max_pairs, seed)


def questions_of_split(
    rows: Rows, split: str, max_pairs: int, seed: int
) -> Iterator[tuple[str, pa.Table]]:
    """(name, pairs as of `pairs_of_split`) of each question of the table `questions`."""
    if "questions" not in rows.tables:
        return
    table = rows.table("questions", ["question", *_COLUMNS])
    table = table.filter(pc.equal(table["split"], split))
    for name in sorted(table["question"].unique().to_pylist()):
        of_name = table.filter(pc.equal(table["question"], name)).drop_columns(["question"])
        yield name, _draw(of_name, max_pairs, seed)


def _draw(pairs: pa.Table, max_pairs: int, seed: int) -> pa.Table:
    pairs = pairs.drop_columns(["split"]).sort_by("pair_id")
    return sample(pairs, "pair_id", max_pairs, seed, "evaluate")
