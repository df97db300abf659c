"""A quantity changed: what is a statement, and what its number may become, near it or at random."""

import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_given import alone, generated

from tercet.models.english.numbers import in_words, numbers_in
from tercet.models.rules.other_numbers import Value, other_number
from tercet.models.rules.quantity_change import changed


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("The box holds 3 apples.", "The box holds {} apples."),
        ("It takes 0.05 seconds.", "It takes 0.0{} seconds."),
        ("She bought twenty-five horses.", "She bought {} horses."),
        ("Two hundred dogs ran.", "{} hundred dogs ran."),
        ("It has 2.5 million dogs.", "It has {} million dogs."),
        ("Two of the dogs sleep.", "{} of the dogs sleep."),
        ("It has one input array.", "It has {} input arrays."),
    ],
)
def test_quantity_change_keeps_the_form(text: str, pattern: str) -> None:
    before, _, after = pattern.partition("{}")
    seen = set()
    for seed in range(20):
        rows = generated("quantity_change", alone([text]), seed=seed)
        assert len(rows) == 1
        raw = rows[0]["raw"]
        assert raw.startswith(before)
        assert raw.endswith(after)
        assert raw != text
        old, new = numbers_in(text)[0], numbers_in(raw)[0]
        assert new.form == old.form
        assert new.value not in (old.value, 1)
        assert rows[0]["detail"]["old"] in text
        assert rows[0]["detail"]["new"] in raw
        seen.add(raw)
    assert len(seen) > 1


@pytest.mark.parametrize(
    "text",
    [
        *("One of the dogs sleeps.", "It needs one or more dogs.", "It needs at least one dog."),
        *("It needs at most one dog.", "It is either one of the dogs."),
        *("It is either ten of the dogs.", "It was two of the best years."),
        *("It returns 0 if the list is empty.", "Return 1 for a dog.", "The shape is (n, 1)."),
        *("All values are between 0 and 1.", "The labels are 0, 1.", "It makes a 2-D array."),
        *("It computes exp(x) - 1 of the array.", "It is x - 1 of the array."),
        *("It is 2 * x of the array.", "It holds where n > 5."),
        # What "one" or "two" is not, what a verb agrees with, what stands in a pair or a list.
        *("There is one dog here.", "One dog is asleep.", "It's one tough dog."),
        *("Add one array to another.", "It gives the difference of two arrays."),
        *("It lies between two walls.", "The two are equal.", "It was seen in 28 out of 36 cases."),
        *("They came at 10, 20, 30 and 40 minutes.", "It was seen in 5 dogs, and 5 dogs died."),
        *("It follows ISO 8601 here.", "An hour-and-a-half of noise."),
        *("The risk is lower (OR 0.93, 95% CI 0.61-1.47).", "It turns `1` into a list."),
        # Parts of a term, labels and codes.
        *("It opens a two-way channel.", "The nine-point circle is here."),
        *("It penalizes 2-grams in dogs.", "Section 4.3 tells of dogs."),
        *("It is used for case 2, not for dogs.", "If the error has a 412 status code, stop."),
        *("DTA 118 and 119 format files hold dogs.", "It is a 3 x N array of dogs."),
        "It holds the paper (§2).",
        # What the sentence spells out, or has told before.
        *("It compares two dogs, a and b.", "Given two polynomials a1 and a2, it adds them."),
        "Four methods are missing: initialize, update, dot and get_matrix.",
        *("Two dogs sleep, the other runs.", "The smaller of the two churches is open."),
        *("Those two dogs are asleep.", "It took some hours and twenty minutes."),
        "It has three dogs, Rex, Fido and Bello.",
        *("It leaves two columns, 'variable' and 'value'.", "Half of the dogs sleep."),
        *("Thirty-one of the forty wells sleep.", "The pair half of the conditioning."),
        "The three values are the name, a list of dogs and a list of cats.",
        *("If it has fewer than two dogs, it becomes 2-D.", "All two dogs are asleep."),
        *("Any dog whose two neighbours bark.", "It reads 16B-wide dogs.", "She has 1 grandchild."),
        *("She has one grandchild.", "The dog sleeps."),
    ],
)
def test_quantity_change_leaves_what_is_no_statement(text: str) -> None:
    assert all(generated("quantity_change", alone([text]), seed=seed) == [] for seed in range(5))


def test_quantity_change_keeps_years_near_and_ranges_rising() -> None:
    for seed in range(20):
        year = generated("quantity_change", alone(["He was born in 1987."]), seed=seed)[0]["raw"]
        assert 1927 <= int(year[-5:-1]) <= 2026
        raw = generated("quantity_change", alone(["They saw 10-20 dogs."]), seed=seed)[0]["raw"]
        low, high = (number.value for number in numbers_in(raw))
        assert low < high


DRAWS = st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8)
NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str),
    st.integers(0, 10**9).map("{:,}".format),
    st.tuples(st.integers(0, 9999), st.integers(0, 999)).map(lambda p: f"{p[0]}.{p[1]}"),
    st.integers(0, 10**6).map(in_words),
    st.tuples(st.integers(0, 40), st.integers(1, 40)).map(lambda p: f"{p[0]}/{p[1]}"),
)


@given(NUMBERS, DRAWS)
def test_quantity_change_always_changes_the_value(number: str, draws: list[int]) -> None:
    text = f"They saw {number} dogs."
    for value in ("near", "random"):
        change = changed(text, number, 9, None, draws, value)
        if change is not None:
            raw, old, new = change
            assert raw == text.replace(old, new, 1)
            (before,), (after,) = numbers_in(text), numbers_in(raw)
            assert before.value != after.value
            assert "/" in number or before.form == after.form


def test_numbers_in_words_of_any_make_end_in_another_or_in_none() -> None:
    words = ["a", "one", "seven", "twelve", "twenty", "forty", "hundred", "thousand", "million"]
    for parts in itertools.product(words, repeat=3):
        for between in (" ", "-", " and ", "-and-"):
            text = between.join(parts)
            for number in numbers_in(text):
                new = other_number(text, number.start, number.end, number, 5, "near")
                assert new is None or numbers_in(new)


def others(text: str, value: Value, count: int = 2000) -> set[str]:
    """What many draws put in the place of the text's first number."""
    number = numbers_in(text)[0]
    # Multiples of a large odd number: draws whose every bit varies.
    draws = [n * 0x9E3779B97F4A7C15 % 2**64 for n in range(count)]
    numbers = [other_number(text, number.start, number.end, number, d, value) for d in draws]
    return {one for one in numbers if one is not None}


def whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda number: number.isdigit() and low <= int(number) <= high


def fits(pattern: str) -> Callable[[str], bool]:
    return lambda number: re.fullmatch(pattern, number) is not None


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
    assert all(map(fit, found)), found
    if widest is not None:
        assert max(map(int, found)) > widest * 0.9


def test_random_words_are_words_up_to_ninety_nine() -> None:
    found = others("They saw two dogs.", "random")
    assert {"three", "seventeen", "twenty", "forty-seven"} <= found
    values = {int(numbers_in(one)[0].value) for one in found}
    assert values == set(range(2, 100))
    assert "twenty one" in others("They saw thirty two dogs.", "random")


def test_a_number_near_the_old_one_has_its_size() -> None:
    assert others("It has 3 wheels.", "near") == set("123456789")
    assert max(abs(int(one) - 1987) for one in others("It opened in 1987.", "near")) <= 60


@pytest.mark.parametrize(
    ("text", "pattern", "below"),
    [
        ("Il a 812 chevaux et une maison.", "Il a {} chevaux et une maison.", 1000),
        ("Elle est née le 14 juillet.", "Elle est née le {} juillet.", 29),
        ("Elle pèse 1 kg.", None, 0),
    ],
)
def test_in_another_language_a_number_may_be_a_day_and_no_noun_changes(
    text: str, pattern: str | None, below: int
) -> None:
    rows = [
        row
        for seed in range(20)
        for row in generated("quantity_change", alone([text]), seed=seed, language="fr")
    ]
    assert bool(rows) == (pattern is not None)
    for row in rows:
        new = row["detail"]["new"]
        assert row["raw"] == str(pattern).format(new)
        assert 1 < int(new) < below
