"""Questions one by one: where the best answer to each stands, and what stands before it."""

from collections.abc import Sequence

import pyarrow as pa

from tercet.models.retrieval.rankings import NONE
from tercet.tasks.evaluation.evaluation_rows import Subject
from tercet.tasks.evaluation.suites.beir import BM25, ENCODER, HYBRID, RetrievalTask
from tercet.tasks.evaluation.suites.task import Scores
from tercet.tasks.rejects import SHOWN

QUESTION_RANKS = pa.schema(
    [
        ("model_version", pa.string()),
        ("task", pa.string()),
        ("way", pa.string()),
        ("item", pa.int32()),
        ("query_id", pa.uint64()),
        ("query", pa.string()),
        ("rank", pa.int32()),
        ("first_id", pa.uint64()),
        ("first", pa.string()),
    ]
)
"""Table `question_ranks`. The questions of `evaluate.retrieval_sets` in the measured splits: one
row for each model, question and way to rank.

Columns:
    model_version: as in `evaluations`
    task: the set, with ` dev` behind it for questions of that split
    way: what ranks: `encoder`, `bm25`, which is the same for every model, or `hybrid` of both
    item: place among the questions of the task: `evaluation_items.item`
    query_id: id of the question's text, as in `judgements`
    query: the question
    rank: place from 1 of the best answer, a passage, a document or a file as `judgements.unit` has
        it; NULL where none is among what was found, 1,000 passages at most
    first_id: → `passages.passage_id`: what came first; NULL for a folder in BEIR's layout, and
        where nothing was found
    first: the beginning of its text, 200 characters
"""


def question_table(subject: Subject, task: RetrievalTask, scores: Sequence[Scores]) -> pa.Table:
    """Rows of `question_ranks`. scores: those of the task, among others."""
    tables = [QUESTION_RANKS.empty_table()]
    n = len(task.queries)
    ids = task.passage_ids or [None] * len(task.documents)
    for way in (ENCODER, BM25, HYBRID):
        named = (task.suite, task.title_by(way))
        by_way = next(one for one in scores if (one.data.suite, one.data.task) == named)
        ranking = by_way.ranking
        assert ranking is not None
        ranks = [
            next((rank for rank, place in enumerate(places, 1) if of.get(place, 0) > 0), None)
            for places, of in zip(task.rank_units(ranking).tolist(), task.judged, strict=True)
        ]
        firsts = [None if place == NONE else place for place in ranking[:, 0].tolist()]
        columns = {
            "model_version": [subject.model_version] * n,
            "task": [task.title] * n,
            "way": [way] * n,
            "item": range(n),
            "query_id": by_way.parts[0].queries,
            "query": task.queries,
            "rank": ranks,
            "first_id": [None if p is None else ids[p] for p in firsts],
            "first": [None if place is None else task.documents[place][:SHOWN] for place in firsts],
        }
        tables.append(pa.table(columns, schema=QUESTION_RANKS))
    return pa.concat_tables(tables)
