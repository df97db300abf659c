"""Rows of questions that training moved, as `evaluate` and `passages` write them."""

from typing import Any

import pyarrow as pa

from tercet.models import seeding
from tercet.tasks.stages import known_schemas

TABLES = ("question_ranks", "evaluation_items", "passages")
# Each question's nDCG@10 and rank before and after, and its rank by words.
MOVES = {
    "gains most": (0.0, 1.0, None, 1, 7),
    "gains": (0.5, 0.7, 3, 2, None),
    "stays": (1.0, 1.0, 1, 1, 1),
    "loses": (0.6, 0.4, 2, 4, 1),
    "loses most": (1.0, 0.1, 1, 9, 1),
}


def question_rows(
    base: str = "old", encoder: str = "new", task: str = "mine"
) -> dict[str, list[dict[str, Any]]]:
    """By table. Passage 1 is right, passage 2 wrong; `bm25` and `hybrid` differ in their rank."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    found["passages"] = [
        {"passage_id": number, "source": f"{name}.md", "text": f"{name} words"}
        for number, name in ((1, "right"), (2, "wrong"))
    ]
    for item, (query, (old, new, before, after, words)) in enumerate(MOVES.items()):
        for model, ndcg, rank in ((base, old, before), (encoder, new, after)):
            of_query = {"model_version": model, "item": item, "query_id": seeding.text_id(query)}
            found["evaluation_items"].append(
                {**of_query, "suite": "retrieval_sets", "task": task, "subset": "all"}
                | {"metric": "ndcg@10", "value": ndcg}
            )
            for way, place in (("encoder", rank), ("bm25", words), ("hybrid", rank)):
                first = 1 if place == 1 else 2
                found["question_ranks"].append(
                    {**of_query, "task": task, "way": way, "query": query, "rank": place}
                    | {"first_id": first, "first": f"{'right' if first == 1 else 'wrong'} words"}
                )
    return found


def question_tables(**names: str) -> dict[str, pa.Table]:
    """The same as tables."""
    schemas = known_schemas()
    return {
        name: pa.Table.from_pylist(rows, schemas[name])
        for name, rows in question_rows(**names).items()
    }
