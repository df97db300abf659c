"""What columns look like, by their names and their values."""

from typing import Any

import pytest

from tercet.tasks.corpus.sources.columns import Column, looks_of
from tercet.tasks.corpus.sources.tables import Row

LONG = [f"It waits in the shallow water for fish number {i}. " * 3 for i in range(100)]
ASKS = [f"Why does heron {i} wait?" for i in range(100)]


def look(name: str, values: list[Any]) -> Column:
    rows = [
        Row(i, {name: value, "body": said}, None)
        for i, (value, said) in enumerate(zip(values, LONG, strict=True))
    ]
    return looks_of([name, "body"], rows, "body")[0]


@pytest.mark.parametrize(
    ("name", "values", "looks"),
    [
        ("enquiry", ASKS, "question"),
        ("enquiry", [f"第{i}条旧渔船在港口吗？" for i in range(100)], "question"),
        ("userQuery", [f"heron {i}" for i in range(100)], "question"),
        ("QUESTION_TEXT", [f"tell me of heron {i}" for i in range(100)], "question"),
        ("question_type", ["when", "where"] * 50, "category"),
        ("question_id", [f"q{i}" for i in range(100)], "key"),
        ("PageTitle", ["heron"] * 30 + [f"heron {i}" for i in range(70)], "title"),
        ("line", [f"Heron {i} waits" for i in range(100)], "title"),
        ("line", [f"Heron {i} waits." for i in range(100)], None),
        ("shop", ["north", "south", "east", "west"] * 25, "category"),
        ("asked_in", ["Is it open?", "Is it near?"] * 50, "category"),
        ("id", list(range(100)), "number"),
        ("id", [str(i) for i in range(100)], "number"),
        ("url", [f"https://a.org/{i}" for i in range(100)], "key"),
        ("time", [f"2024-01-{i % 28 + 1} 10:{i % 60}" for i in range(100)], None),
        ("tags", [["a", "b"]] * 100, "list"),
        ("more", LONG, None),
    ],
)  # fmt: skip
def test_a_column_is_told_by_name_and_values(name: str, values: list[Any], looks: str) -> None:
    assert look(name, values).looks == looks


def test_cells_that_hold_nothing_are_not_filled() -> None:
    column = look("enquiry", [*ASKS[:40], *ASKS[:10], "", "NaN", None, *[" "] * 47])
    assert (column.filled, column.distinct, column.rows, column.asked) == (50, 40, 100, 1.0)
    assert column.words == pytest.approx(5)
