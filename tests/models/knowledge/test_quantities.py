"""Numbers in text: every form, its value and unit, and what is none."""

import pytest

from tercet.models.knowledge.quantities import find, find_in_any_language


@pytest.mark.parametrize(
    ("text", "words", "value", "form", "unit"),
    [
        ("it weighs 5 kg", "5", 5, "measure", "kg"),
        ("2GB of memory", "2", 2, "measure", "GB"),
        ("1,200.5 people", "1,200.5", 1200.5, "number", None),
        ("exactly -3.5 here", "-3.5", -3.5, "number", None),
        ("a tolerance of 1e-5", "1e-5", 1e-5, "number", None),
        ("three hundred and six men", "three hundred and six", 306, "number", None),
        ("one million two hundred", "one million two hundred", 1_000_200, "number", None),
        ("a hundred men", "a hundred", 100, "number", None),
        ("a dozen eggs", "a dozen", 12, "number", None),
        ("half a million people", "half a million", 500_000, "number", None),
        ("3/4 of it", "3/4", 0.75, "fraction", None),
        ("2 1/2 cups", "2 1/2", 2.5, "fraction", "cup"),
        ("two thirds of it", "two thirds", 2 / 3, "fraction", None),
        ("half of it", "half", 0.5, "fraction", None),
        ("two and a half million men", "two and a half million", 2_500_000, "number", None),
        ("two and a half hours", "two and a half", 2.5, "measure", "hour"),
        ("only 20% left", "20", 20, "percentage", "%"),
        ("seventy per cent", "seventy", 70, "percentage", "%"),
        ("10-20 apples", "10-20", 15, "range", None),
        ("10 to 20 km", "10 to 20", 15, "range", "km"),
        ("between 5 and 7 days", "5 and 7", 6, "range", "day"),
        ("it cost US$ 3.5 billion", "3.5 billion", 3.5e9, "money", "$"),
        ("20 euros", "20", 20, "money", "€"),
        ("in 1997, he left", "1997", 1997, "year", None),
        ("1997 metres high", "1997", 1997, "measure", "m"),
        ("a three-day trip", "three", 3, "measure", "day"),
        ("90 °C", "90", 90, "measure", "°C"),
        ("30 square miles", "30", 30, "measure", "square mile"),
    ],
)
def test_forms(text: str, words: str, value: float, form: str, unit: str | None) -> None:
    (found,) = find(text)
    assert text[found.start : found.end] == words
    assert found.value == pytest.approx(value)
    assert (found.form, found.unit) == (form, unit)
    assert not found.needs_noun


@pytest.mark.parametrize(
    "text",
    [
        *("the 1st and the 22nd", "the twenty-first century", "the twenty first time"),
        *("version 1.2.3", "on 2014-05-06", "on 9/11/2001", "at 9:30 a.m.", "the 1990s"),
        *("float32 and x2 in 3D", "COVID-19 and the F-16", "hundreds of them"),
        *("several hundred men", "the first and the second", "no one knows", "the one who won"),
        *("1,2,3", "call 555-12-34", ""),
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    assert [text[found.start : found.end] for found in find(text) if not found.needs_noun] == []


def test_a_number_is_not_read_over_another() -> None:
    text = "won 5-3 against two or three teams and nineteen others"
    assert [(text[q.start : q.end], q.value) for q in find(text)] == [
        ("5", 5),
        ("3", 3),
        ("two", 2),
        ("three", 3),
        ("nineteen", 19),
    ]


def test_one_needs_what_it_counts() -> None:
    assert [found.needs_noun for found in find("one dog or one hour")] == [True, False]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Elle pèse 5 kg et coûte 20 €.", [("5", "kg"), ("20", "€")]),
        ("Elle a 12 ans, soit 3 cups.", [("12", None), ("3", None)]),
        ("En 1998, 14 % des gens", [("1998", None), ("14", "%")]),
        ("1,5 litre, 1.234 Euro, 1 234 habitants, 12\u202f000 arbres", []),
        ("le 5/12, à 15 h, six chats, 3e et 10-20", []),
        ("à 14 heures, um 15 Uhr, a las 16 horas, alle ore 17", [("17", None)]),
        ("de 5 à 10 pas, de 20 % à 30 %, de 1,5 à 3 m, 12 sur 20, à 14 h 30", []),
    ],
)
def test_quantities_of_any_language_are_plain_digits(
    text: str, found: list[tuple[str, str | None]]
) -> None:
    quantities = find_in_any_language(text)
    assert [(text[one.start : one.end], one.unit) for one in quantities] == found
