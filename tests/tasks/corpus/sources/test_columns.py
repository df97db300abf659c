from typing import Any

import pytest

from tercet.tasks.corpus.sources.columns import labels_of, pair_of, repeated_pair
from tercet.tasks.corpus.sources.tables import Row


def table(**columns: list[Any]) -> tuple[list[str], list[Row]]:
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return list(columns), [Row(number, row, None) for number, row in enumerate(rows, 1)]


TEXTS = [f"A text of its own, number {i}." for i in range(100)]


def test_a_pair_is_found_by_its_names_whatever_their_case() -> None:
    assert pair_of(*table(Title=TEXTS, Body=TEXTS)) == ("Title", "Body")
    assert pair_of(*table(left=TEXTS, right=TEXTS)) is None


def test_a_question_that_is_often_missing_or_the_same_makes_no_pair() -> None:
    assert pair_of(*table(title=[*TEXTS[:50], *[""] * 50], body=TEXTS)) is None
    assert pair_of(*table(title=[*TEXTS[:50], *["NaN"] * 50], body=TEXTS)) is None
    assert pair_of(*table(title=["Re: hello"] * 100, body=TEXTS)) is None


def test_a_pair_with_repeated_questions_is_known_as_such() -> None:
    found = repeated_pair(*table(Title=[*TEXTS[:60], *TEXTS[:40]], Body=TEXTS))
    assert found == ("Title", "Body", 60, 100)
    assert repeated_pair(*table(title=TEXTS, body=TEXTS)) is None
    assert repeated_pair(*table(title=[*TEXTS[:50], *[""] * 50], body=TEXTS)) is None


@pytest.mark.parametrize(
    "values", [[1, 2] * 50, ["good", "bad"] * 50, [True, False] * 50, [4.0, 5.0] * 50]
)
def test_a_column_of_few_values_holds_labels(values: list[Any]) -> None:
    found = labels_of(*table(text=TEXTS, mark=values), ("text",))
    assert list(found) == ["mark"]
    assert len(found["mark"]) == 2


def test_a_column_that_is_called_label_comes_first() -> None:
    shop, label = ["north", "south"] * 50, ["a", "b"] * 50
    assert list(labels_of(*table(shop=shop, label=label), ())) == ["label", "shop"]


@pytest.mark.parametrize(
    "values",
    [
        list(range(100)),
        ["one"] * 100,
        ["one"] * 95 + ["two"] * 5,
        ["one", "N/A"] * 50,
        [*"ab"] * 50,
    ],
)
def test_many_values_one_value_a_rare_one_and_a_text_are_no_labels(values: list[Any]) -> None:
    assert labels_of(*table(mark=values), ("mark",) if values[0] == "a" else ()) == {}
