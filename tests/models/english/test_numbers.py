from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.english.numbers import in_words, numbers_in


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
    said = f"{value:,}" if thousands else str(value)
    assert [number.value for number in numbers_in(said)] == [value]


def test_in_words_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="is not in"):
        in_words(-1)
