"""Questions of one's own one by one, before and after training."""

from typing import Any

import duckdb

from tercet.flows.results.queries import fetch_dicts
from tercet.tasks.evaluation.suites.beir import BM25, ENCODER, HYBRID

# Where training changes nothing, both models are one version, and each row is there twice.
_QUESTIONS = f"""
WITH models AS (
    SELECT DISTINCT phase, model_version FROM evaluations
    WHERE phase = 'base' OR (phase = 'encoder' AND seed = $seed)
), ranks AS (
    SELECT DISTINCT ON (phase, task, way, item) phase, task, way, item, query, rank,
        concat_ws(': ', p.source, r.first) AS first
    FROM question_ranks r JOIN models USING (model_version)
    LEFT JOIN passages p ON p.passage_id = r.first_id
), measures AS (
    SELECT DISTINCT ON (phase, task, item) phase, task, item, 100 * value AS ndcg
    FROM evaluation_items JOIN models USING (model_version)
    WHERE suite = 'retrieval_sets' AND metric = 'ndcg@10'
)
SELECT task, a.query, ma.ndcg - mb.ndcg AS gain, b.rank AS before, a.rank AS after,
    w.rank AS bm25, h.rank AS both, b.first AS first_before, a.first AS first_after
FROM ranks a JOIN ranks b USING (task, item) JOIN ranks w USING (task, item)
JOIN ranks h USING (task, item) JOIN measures ma USING (task, item)
JOIN measures mb USING (task, item)
WHERE (a.phase, a.way) = ('encoder', '{ENCODER}') AND (b.phase, b.way) = ('base', '{ENCODER}')
    AND (w.phase, w.way) = ('encoder', '{BM25}') AND (h.phase, h.way) = ('encoder', '{HYBRID}')
    AND ma.phase = 'encoder' AND mb.phase = 'base'
ORDER BY gain DESC, task, item
"""


def read_questions(connection: duckdb.DuckDBPyConnection, seed: int) -> list[dict[str, Any]]:
    """The questions of `evaluate.retrieval_sets` in test, else in dev, by falling gain.

    Each has its task and query; gain: of nDCG@10, in points; before, after, bm25, both: the rank of
    its best answer, from 1, None where it was not found; first_before, first_after: the file and
    the beginning of the text that came first. Empty for runs without such questions, and for
    evaluations of versions that did not write the ranks down.
    """
    rows = fetch_dicts(connection, _QUESTIONS, {"seed": seed})
    return [row for row in rows if not row["task"].endswith(" dev")] or rows
