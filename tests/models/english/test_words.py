import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.english.numbers import in_words, numbers_in
from tercet.models.english.words import in_shape_of, replaced, wants_an, word_lists

MODELS = Path(__file__).parents[3] / "models"


def test_in_shape_of() -> None:
    assert in_shape_of("DOG", "cat") == "CAT"
    assert in_shape_of("Dog", "cat") == "Cat"
    assert in_shape_of("New York", "san marino") == "San Marino"
    assert in_shape_of("dog", "NumPy") == "NumPy"


def test_every_list_of_words_is_used_and_names_a_word_once() -> None:
    modules = [path for path in MODELS.rglob("*.py") if "word_lists(__file__)" in path.read_text()]
    assert modules
    for module in modules:
        code = module.read_text()
        assert f'"{module.stem}.tsv"' in code  # in its DATA_FILES
        names = {name.rpartition(" ")[0] or name for name in word_lists(str(module))}
        assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set(), module
        lines = module.with_suffix(".tsv").read_text().splitlines()
        listed = (line.split("\t") for line in lines if line[0] != "#")
        words = Counter((name, word) for name, row in listed for word in row.split())
        assert [each for each, count in words.items() if count > 1] == [], module


@pytest.mark.parametrize(
    ("words", "an"),
    [
        ("apple hour heir 8-bit 11 18 800 1854 HTML MRI NP 'empty' eleven onerous", True),
        ("umbrella unimportant unidentified honest", True),
        ("dog house university user unit European one once 1 7 10 110 UTF NASA (box)", False),
        ("useful utopia uranium one-way history", False),
    ],
)
def test_an_before_a_vowel_sound(words: str, an: bool) -> None:
    assert [word for word in words.split() if wants_an(word) is not an] == []


def test_replaced_puts_the_article_right() -> None:
    assert replaced("It is a dog.", 8, 11, "owl") == "It is an owl."
    assert replaced("An owl sat.", 3, 6, "dog") == "A dog sat."
    assert replaced('He saw an "owl".', 11, 14, "dog") == 'He saw a "dog".'
    assert replaced("Vitamin A dog food", 10, 13, "owl") == "Vitamin A owl food"
    assert replaced("the dog", 4, 7, "owl") == "the owl"
    assert replaced("banana dog", 7, 10, "owl") == "banana owl"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3 dogs", [3]),
        ("1,000 dogs and 2.50 cats", [1000, Fraction(5, 2)]),
        ("2.5 million", [2_500_000]),
        ("twenty-five", [25]),
        ("three hundred and six", [306]),
        ("one million two hundred thousand", [1_200_000]),
        ("1/2 or three quarters", [Fraction(1, 2), Fraction(3, 4)]),
        ("5mm", [5]),
        ("10-20", [10, 20]),
        (".5", [Fraction(1, 2)]),
        ("1st, 2nd, 3.11.2, 12:30, 1/2/2003, hundred, two three", []),
        ("someone often weighs tenfold", []),
    ],
)
def test_numbers_found(text: str, values: list[Fraction]) -> None:
    found = numbers_in(text)
    assert [number.value for number in found] == values
    assert all(text[number.start : number.end] == number.text for number in found)


@given(st.integers(0, 10**15 - 1))
def test_words_of_a_number_have_its_value(value: int) -> None:
    assert [number.value for number in numbers_in(in_words(value))] == [value]


@given(st.integers(0, 10**12), st.booleans())
def test_digits_of_a_number_have_its_value(value: int, thousands: bool) -> None:
    words = f"{value:,}" if thousands else str(value)
    assert [number.value for number in numbers_in(words)] == [value]


def test_in_words_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="is not in"):
        in_words(-1)
