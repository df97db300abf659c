"""What columns look like, by their names and values: pairs, labels, questions and titles."""

from typing import Any

import pytest

from tercet.tasks.corpus.sources.columns import Column, FilledPair, labels_of, looks_of, pairs_of
from tercet.tasks.corpus.sources.tables import Row


def table(**columns: list[Any]) -> tuple[list[str], list[Row]]:
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return list(columns), [Row(number, row, None) for number, row in enumerate(rows, 1)]


TEXTS = [f"A text of its own, number {i}." for i in range(100)]


def pairs(text: str = "", **columns: list[Any]) -> list[FilledPair]:
    names, rows = table(**columns)
    return pairs_of(names, rows, looks_of(names, rows, text) if text else (), text)


def taken(text: str = "", **columns: list[Any]) -> list[tuple[str, str]]:
    found = pairs(text, **columns)
    return [(pair.query, pair.answer) for pair in found if pair.sure and pair.natural]


def test_a_pair_is_found_by_its_names_whatever_their_case() -> None:
    assert taken(Title=TEXTS, Body=TEXTS) == [("Title", "Body")]
    assert taken(left=TEXTS, right=TEXTS) == []


def test_a_question_that_is_often_missing_or_the_same_makes_no_pair() -> None:
    assert pairs(title=[*TEXTS[:50], *[""] * 50], body=TEXTS) == []
    assert pairs(title=[*TEXTS[:50], *["NaN"] * 50], body=TEXTS) == []
    assert taken(title=["Re: hello"] * 100, body=TEXTS) == []


def test_a_pair_with_repeated_questions_is_known_as_such() -> None:
    (found,) = pairs(Title=[*TEXTS[:60], *TEXTS[:40]], Body=TEXTS)
    assert (found, found.natural) == (("Title", "Body", 60, 100, True), False)


LONG = [f"It waits in the shallow water for fish number {i}. " * 3 for i in range(100)]
ASKS = [f"Why does heron {i} wait?" for i in range(100)]
SHORT = [f"heron {i} waits" for i in range(100)]


def test_a_question_is_seen_by_its_marks_and_a_title_by_its_name() -> None:
    assert taken("story", story=LONG, enquiry=ASKS) == [("enquiry", "story")]
    assert taken("story", story=LONG, page_title=SHORT) == [("page_title", "story")]
    both = taken("story", doc_title=SHORT, story=LONG, user_question=ASKS)
    assert both == [("user_question", "story"), ("doc_title", "story")]


def test_by_values_alone_a_title_is_suggested_and_not_taken() -> None:
    (found,) = pairs("story", story=LONG, line=SHORT)
    assert (found.query, found.answer, found.sure, found.natural) == ("line", "story", False, True)


def test_a_pair_that_can_be_taken_stands_before_one_that_repeats() -> None:
    found = pairs("body", title=["Re: hello"] * 100, body=LONG, enquiry=ASKS)
    assert [(pair.query, pair.natural) for pair in found] == [("enquiry", True), ("title", False)]


def test_questions_without_a_longer_text_are_no_pair() -> None:
    assert pairs("question1", question1=ASKS, question2=ASKS[::-1]) == []
    assert pairs("enquiry", enquiry=ASKS, said=["yes"] * 100) == []


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
        ("links", [[{"to": "a"}]] * 100, "list of objects"),
        ("more", LONG, None),
    ],
)  # fmt: skip
def test_a_column_is_told_by_name_and_values(name: str, values: list[Any], looks: str) -> None:
    assert look(name, values).looks == looks


def test_cells_that_hold_nothing_are_not_filled() -> None:
    column = look("enquiry", [*ASKS[:40], *ASKS[:10], "", "NaN", None, *[" "] * 47])
    assert (column.filled, column.distinct, column.rows, column.asked) == (50, 40, 100, 1.0)
    assert column.words == pytest.approx(5)
