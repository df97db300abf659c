"""What number stands for another: near it, or at random, and always of the same form."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.english.numbers import numbers_in
from tercet.models.rules.other_numbers import Value, other_number
from tercet.models.rules.quantity_change import changed


def others(text: str, value: Value, count: int = 2000) -> set[str]:
    """What many draws put in the place of the text's first number."""
    number = numbers_in(text)[0]
    # Multiples of a large odd number: draws whose every bit varies.
    draws = [n * 0x9E3779B97F4A7C15 % 2**64 for n in range(count)]
    said = [other_number(text, number.start, number.end, number, d, value) for d in draws]
    return {one for one in said if one is not None}


def whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda said: said.isdigit() and low <= int(said) <= high


def fits(pattern: str) -> Callable[[str], bool]:
    return lambda said: re.fullmatch(pattern, said) is not None


@pytest.mark.parametrize(
    ("text", "fit", "widest"),
    [
        ("It has 3 wheels.", whole(1, 9999), 1000),
        ("It opened in 1987.", whole(1500, 2026), 1600),
        ("He died in 1066.", whole(1000, 2026), 1900),
        ("On May 12 it rained.", whole(2, 28), 28),
        ("It grew by 5 %.", whole(2, 99), 90),
        ("It cost 1,250 euros.", fits(r"\d{1,3}|\d,\d{3}"), None),
        ("It cost 2.75 euros.", fits(r"\d{1,4}\.\d{2}"), None),
        ("Agent 007 came.", fits(r"00\d"), None),
        ("She ate 2/5 of it.", fits(r"[1-4]/5"), None),
    ],
)
def test_a_random_number_is_what_the_old_one_was(
    text: str, fit: Callable[[str], bool], widest: int | None
) -> None:
    found = others(text, "random")
    assert all(fit(said) for said in found), found
    if widest is not None:
        assert max(map(int, found)) > widest * 0.9


def test_random_words_are_words_up_to_ninety_nine() -> None:
    found = others("They saw two dogs.", "random")
    assert {"three", "seventeen", "twenty", "forty-seven"} <= found
    values = {int(numbers_in(said)[0].value) for said in found}
    assert values == set(range(2, 100))
    assert "twenty one" in others("They saw thirty two dogs.", "random")


def test_a_number_near_the_old_one_has_its_size() -> None:
    assert others("It has 3 wheels.", "near") == set("123456789")
    assert max(abs(int(said) - 1987) for said in others("It opened in 1987.", "near")) <= 60


@given(
    said=st.one_of(
        st.integers(0, 10**7).map(str),
        st.integers(0, 10**7).map(lambda n: f"{n:,}"),
        st.decimals("0.1", "9999", places=2).map(str),
        st.sampled_from(["two", "thirty-one", "two hundred", "half", "2/3", "1.5 billion"]),
    ),
    draws=st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8),
)
def test_a_random_number_can_be_read_and_is_another(said: str, draws: list[int]) -> None:
    text = f"They saw {said} dogs."
    change = changed(text, said, 9, None, draws, "random")
    if change is not None:
        raw, _, _ = change
        (before,), (after,) = numbers_in(text), numbers_in(raw)
        assert before.value != after.value
        assert before.form == after.form
