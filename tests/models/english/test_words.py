from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.english.inflection import (
    forms_of,
    is_plural,
    may_be_plural,
    plural,
    singulars,
)
from tercet.models.english.numbers import in_words, numbers_in
from tercet.models.english.words import in_shape_of, replaced, wants_an


def test_in_shape_of() -> None:
    assert in_shape_of("DOG", "cat") == "CAT"
    assert in_shape_of("Dog", "cat") == "Cat"
    assert in_shape_of("New York", "san marino") == "San Marino"
    assert in_shape_of("dog", "NumPy") == "NumPy"


@pytest.mark.parametrize(
    ("singular", "many"),
    [
        ("dog", "dogs"),
        ("city", "cities"),
        ("box", "boxes"),
        ("woman", "women"),
        ("human", "humans"),
        ("child", "children"),
        ("grandchild", "grandchildren"),
        ("bookshelf", "bookshelves"),
        ("diagnosis", "diagnoses"),
        ("specimen", "specimens"),
        ("talisman", "talismans"),
        ("matrix", "matrices"),
        ("sheep", "sheep"),
        ("glasses", "glasses"),
        ("quiz", "quizzes"),
        ("formula", "formulas"),
        ("news", "news"),
    ],
)
def test_plural(singular: str, many: str) -> None:
    assert plural(singular) == many


def test_is_plural_goes_by_the_lemma_where_it_is_known() -> None:
    assert is_plural("Dogs", "dog")
    assert not is_plural("dog", "dog")
    assert not is_plural("glass", "glass")
    assert not is_plural("United States", "United States")
    assert is_plural("cities")
    assert not is_plural("bus")


@pytest.mark.parametrize(
    "noun",
    [
        *("dog", "city", "hero", "lens", "corpus", "formula", "grandchild", "chairman", "midwife"),
        *("box", "class", "woman", "leaf", "value"),
    ],
)
def test_what_is_written_as_a_plural_is_read_as_one(noun: str) -> None:
    assert may_be_plural(plural(noun))
    assert noun in singulars(plural(noun))
    assert plural(plural(noun)) == plural(noun)


def test_a_plural_that_is_read_is_not_always_written() -> None:
    assert singulars("formulae") == ("formula",)
    assert plural("formulae") == "formulae"
    assert singulars("indices")[0] == "index"
    assert not any(map(may_be_plural, ("dog", "city", "box", "class", "value")))
    assert singulars("class") == singulars("status") == singulars("axis") == ()


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("stop", ("stops", "stopping", "stopped", "stopped")),
        ("apply", ("applies", "applying", "applied", "applied")),
        ("write", ("writes", "writing", "wrote", "written")),
        ("go", ("goes", "going", "went", "gone")),
        ("carry out", ("carries out", "carrying out", "carried out", "carried out")),
        ("have", ("has", "having", "had", "had")),
        ("unwrap", ("unwraps", "unwrapping", "unwrapped", "unwrapped")),
        ("overfit", ("overfits", "overfitting", "overfitted", "overfitted")),
        ("mimic", ("mimics", "mimicking", "mimicked", "mimicked")),
        ("beat", ("beats", "beating", "beat", "beaten")),
        ("undertake", ("undertakes", "undertaking", "undertook", "undertaken")),
    ],
)
def test_forms_of_verbs(verb: str, forms: tuple[str, ...]) -> None:
    found = forms_of(verb)
    assert (found.third, found.ing, found.past, found.participle) == forms


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
