"""What the recipe asks to be measured and was not: the summary says it with its reason."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from known_tables import known_tables

from tercet.flows.recipe.model import Recipe
from tercet.flows.results import unmeasured
from tercet.tasks.stage import REJECTS


def recipe(**corpus: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "r",
            "backbone": "b",
            "whiten": {},
            "corpora": [{"name": "c", "source": "c.csv", **corpus}],
        }
    )


def told(
    rejects: list[tuple[str, int | None, str, str, str | None]], of: Recipe, pairs: int = 0
) -> list[str]:
    """rejects: stage, row, reason, detail and text."""
    rows = [dict(zip(REJECTS.names, row, strict=True)) for row in rejects]
    with duckdb.connect() as db:
        db.register("rejects", pa.Table.from_pylist(rows, schema=REJECTS))
        db.register("document_pairs", pa.table({"pair_id": list(range(pairs))}))
        return unmeasured.describe_unmeasured(db, of)


@pytest.mark.parametrize(
    "reject",
    [
        ("halves", None, "no_halves", "halves were not measured: why", "test"),
        ("labels", None, "one_label", "column 'x' has 1 label", None),
        ("labels", None, "rare_label", "column 'x': 9 of 80 texts have this label", "red"),
        ("labels", None, "no_texts", "column 'x' has no value in split test", "test"),
        ("awareness", None, "too_few", "entity: 3 pairs, fewer than the 30 needed", None),
        ("define", None, "no_held_out", "none is held out", None),
        ("evaluate", None, "no_judgement", "own: 1 of 2 queries have no relevant document", None),
    ],
)
def test_each_is_told_once_with_its_reason(
    reject: tuple[str, int | None, str, str, str | None],
) -> None:
    assert told([reject, reject], recipe()) == [f"Not measured: {reject[3]}."]


def test_a_split_that_is_not_measured_promises_nothing() -> None:
    assert told([("halves", None, "no_halves", "why", "dev")], recipe()) == []


def test_pairs_are_promised_where_there_are_any_or_columns_of_them() -> None:
    reject = ("evaluate", None, "no_pairs", "no pairs in split test", "test")
    assert told([reject], recipe()) == []
    assert told([reject], recipe(), pairs=3) == ["Not measured: no pairs in split test."]
    paired = recipe(query="title", answer="body")
    assert told([reject], paired) == ["Not measured: no pairs in split test."]


def test_rejects_of_rows_and_of_other_stages_are_none() -> None:
    rows: list[tuple[str, int | None, str, str, str | None]] = [
        ("awareness", 7, "no_pair", "why", None), ("ingest", None, "no_text", "why", None),
    ]  # fmt: skip
    assert told(rows, recipe()) == []
    # The warnings have it, with what to do.
    assert (
        told([("evaluate", None, "no_document", "own: 1 relevant document", None)], recipe()) == []
    )
    with known_tables() as db:
        assert unmeasured.describe_unmeasured(db, recipe()) == []
