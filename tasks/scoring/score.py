"""The table of scores, and the declaration of a scorer.

A scorer is a module with `SCORER` and a line in `tasks/scoring/scorers.py`. It has its own stage,
named `score`, which maps the parts of `candidates` to `scores`; in a recipe's pipeline it is the
step `score.NAME`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.seeding import Ids, text_ids
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import Stage, Work

STAGE_NAME = "score"
SCORES = pa.schema(
    [
        ("candidate_id", pa.uint64()),
        ("scorer", pa.string()),
        ("measure", pa.string()),
        ("value", pa.float64()),
    ]
)
"""Table `scores`.

Key: `candidate_id`, `scorer`, `measure`.

Columns:
    candidate_id: → `candidates.candidate_id`
    scorer: the scorer: `evaluator`, or one that the recipe lists under `score`
    measure: `similarity`, the cosine with the anchor; `p_true`, the probability that the
        candidate means the same as the anchor, or follows from it (`pair`). Of a negative, 1 −
        `p_true` is the probability of its role. Of a query by `round_trip`: `rank_vectors`,
        `rank_bm25`, `rank_fused`, the rank of its own passage among all passages
    value: the measure: −1 to 1, or 0 to 1; of a rank from 1, the best, to 1,000, and 1,001 for a
        passage that is not found
"""

# similarity: a cosine. p_true: the probability that the candidate means the same as its sentence.
# rank: `rank_vectors` and so on, in the table, of the passage for its query.
Measure: TypeAlias = Literal["similarity", "p_true", "rank"]


@dataclass(frozen=True)
class Scorer:
    """One way to judge candidates.

    stage: emits a score or a reject for each candidate of a part. Its config is what a recipe may
        set under `score.NAME`, its slots are `candidates` and those in `reads`.
    module: for a scorer of an installed package: the module that its entry point names. Versions
        cover its code, with all that it imports of its package.
    reads: some of `sentences`, `embeddings` (vectors of all candidates and their sentences),
        `passages` and `passage_vectors` (by the evaluator; its model is then the slot `encoder`,
        and the config says how it encoded).
    """

    name: str
    measure: Measure
    stage: Stage
    reads: Sequence[Literal["sentences", "embeddings", "passages", "passage_vectors"]] = ()
    module: str = ""


def anchor_ids(batch: pa.RecordBatch) -> Ids:
    """The ids of the anchors' texts: each candidate's own anchor, else its sentence.

    batch: sentence_id and anchor, at least.
    """
    ids: Ids = batch["sentence_id"].to_numpy(zero_copy_only=False).astype(np.uint64)
    has_anchor = batch["anchor"].is_valid().to_numpy(zero_copy_only=False)
    if has_anchor.any():
        ids[has_anchor] = text_ids(batch["anchor"].drop_null().to_pylist())
    return ids


def emit_scores(
    work: Work, name: str, measure: str, batch: pa.RecordBatch, values: npt.NDArray[Any]
) -> None:
    """Emits the candidates' scores; a candidate whose value is not a number is a reject.

    batch: candidate_id, and text if a value may be NaN. values: shape (rows,).
    """
    scored = np.isfinite(values)
    scored_rows, lost = batch.filter(pa.array(scored)), batch.filter(pa.array(~scored))
    n = scored_rows.num_rows
    columns = [
        scored_rows["candidate_id"],
        pa.repeat(pa.scalar(name), n),
        pa.repeat(pa.scalar(measure), n),
        pa.array(values[scored], pa.float64()),
    ]
    work.emit("scores", pa.table(columns, schema=SCORES))
    if lost.num_rows:
        detail = f"the {measure} of {name} is not a number"
        ids, texts = lost["candidate_id"], lost["text"]
        work.emit("rejects", rejects(STAGE_NAME, ids, "nan_score", detail, texts))
