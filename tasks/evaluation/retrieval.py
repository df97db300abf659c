"""The pairs of each split and question, and the rank of each query's own answer."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.measures import metrics
from tercet.storage.rows import Rows
from tercet.tasks.evaluation.document_pairs import pairs_of_split, questions_of_split
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.evaluation_rows import DOCUMENT_PAIRS, HALVES, Pairs
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.stage import BadInput

# A question with fewer pairs in a split is not measured there.
LEAST = 30
# Of two answers there is one to find; without any document pairs that is said.
_LEAST_OF = {DOCUMENT_PAIRS: 1, HALVES: 2}


def draw_pairs(rows: Rows, splits: Sequence[Split], max_pairs: int, seed: int) -> list[Pairs]:
    """The pairs of each split that has some, then those of its other questions.

    Of each at most `max_pairs`, drawn by their ids.
    """
    found = []
    for split in splits:
        tables: list[tuple[str, pa.Table]] = []
        if DOCUMENT_PAIRS in rows.tables:
            tables.append((DOCUMENT_PAIRS, pairs_of_split(rows, split, max_pairs, seed)))
        tables += questions_of_split(rows, split, max_pairs, seed)
        for task, part in tables:
            ids = part["pair_id"].to_numpy().astype(np.uint64)
            queries, answers = (part[side].to_pylist() for side in ("query", "answer"))
            if len(ids) >= _LEAST_OF.get(task, LEAST):
                found.append(Pairs(split, ids, queries, answers, task))
    return found


def ranks_of(encoded: Encoded, pairs: Pairs) -> npt.NDArray[np.int32]:
    """Rank of each query's answer among the distinct answers of the split."""
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs.answers))}
    own = np.array([places[text] for text in pairs.answers], dtype=np.int64)
    of_queries, of_answers = pairs.sides
    queries, answers = encoded.of(pairs.queries, of_queries), encoded.of(list(places), of_answers)
    return metrics.answer_ranks(queries, answers, own)


def baseline_ranks(rows: Rows, pairs: Pairs) -> npt.NDArray[np.int32]:
    """The untouched model's ranks of these pairs. Raises BadInput if one is missing."""
    table = rows.table("retrieval_ranks", ["pair_id", "split", "rank", "task"])
    own = pc.and_(pc.equal(table["split"], pairs.split), pc.equal(table["task"], pairs.task))
    table = table.filter(own).sort_by("pair_id")
    ids = table["pair_id"].to_numpy().astype(np.uint64)
    absent = int((~np.isin(pairs.ids, ids)).sum())
    if absent:
        raise BadInput(
            f"The baseline lacks {absent} of {len(pairs.ids)} pairs, so nothing can be "
            "compared: evaluate it on the same pairs (same seed and max_pairs)."
        )
    ranks: npt.NDArray[np.int32] = table["rank"].to_numpy().astype(np.int32)
    return np.take(ranks, np.searchsorted(ids, pairs.ids))
