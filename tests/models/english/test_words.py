from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.english import numerals
from tercet.models.english.verbs import forms_of
from tercet.models.english.words import in_shape_of, is_plural, plural, replaced, wants_an


@pytest.mark.parametrize(
    "word",
    [
        "apple",
        "hour",
        "honest man",
        "8-bit",
        "11",
        "18",
        "800",
        "HTML",
        "MRI",
        "NP",
        "umbrella",
        "unimportant",
        "unidentified",
        "eleven",
        "1854",
        "onerous",
        "'empty'",
        "heir",
    ],
)
def test_an_before_a_vowel_sound(word: str) -> None:
    assert wants_an(word)


@pytest.mark.parametrize(
    "word",
    [
        "dog",
        "house",
        "university",
        "user",
        "unit",
        "European",
        "one",
        "once",
        "1",
        "7",
        "110",
        "UTF",
        "useful",
        "NASA",
        "utopia",
        "uranium",
        "one-way",
        "history",
        "10",
        "(box)",
    ],
)
def test_a_before_a_consonant_sound(word: str) -> None:
    assert not wants_an(word)


def test_replaced_puts_the_article_right() -> None:
    assert replaced("It is a dog.", 8, 11, "owl") == "It is an owl."
    assert replaced("An owl sat.", 3, 6, "dog") == "A dog sat."
    assert replaced('He saw an "owl".', 11, 14, "dog") == 'He saw a "dog".'
    assert replaced("Vitamin A dog food", 10, 13, "owl") == "Vitamin A owl food"
    assert replaced("the dog", 4, 7, "owl") == "the owl"
    assert replaced("banana dog", 7, 10, "owl") == "banana owl"


@pytest.mark.parametrize(
    ("singular", "many"),
    [
        ("dog", "dogs"),
        ("city", "cities"),
        ("day", "days"),
        ("box", "boxes"),
        ("church", "churches"),
        ("woman", "women"),
        ("fireman", "firemen"),
        ("human", "humans"),
        ("child", "children"),
        ("matrix", "matrices"),
        ("bus stop", "bus stops"),
        ("sheep", "sheep"),
        ("glasses", "glasses"),
        ("class", "classes"),
        ("virus", "viruses"),
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


def test_in_shape_of() -> None:
    assert in_shape_of("DOG", "cat") == "CAT"
    assert in_shape_of("Dog", "cat") == "Cat"
    assert in_shape_of("New York", "san marino") == "San Marino"
    assert in_shape_of("dog", "NumPy") == "NumPy"


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("stop", ("stops", "stopping", "stopped", "stopped")),
        ("apply", ("applies", "applying", "applied", "applied")),
        ("write", ("writes", "writing", "wrote", "written")),
        ("permit", ("permits", "permitting", "permitted", "permitted")),
        ("open", ("opens", "opening", "opened", "opened")),
        ("go", ("goes", "going", "went", "gone")),
        ("carry out", ("carries out", "carrying out", "carried out", "carried out")),
        ("have", ("has", "having", "had", "had")),
        ("free", ("frees", "freeing", "freed", "freed")),
        ("unwrap", ("unwraps", "unwrapping", "unwrapped", "unwrapped")),
        ("dispel", ("dispels", "dispelling", "dispelled", "dispelled")),
        ("overfit", ("overfits", "overfitting", "overfitted", "overfitted")),
        ("unbind", ("unbinds", "unbinding", "unbound", "unbound")),
        ("unload", ("unloads", "unloading", "unloaded", "unloaded")),
        ("render", ("renders", "rendering", "rendered", "rendered")),
    ],
)
def test_forms_of_verbs(verb: str, forms: tuple[str, ...]) -> None:
    found = forms_of(verb)
    assert (found.third, found.ing, found.past, found.participle) == forms


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
    found = numerals.find(text)
    assert [number.value for number in found] == values
    assert all(text[number.start : number.end] == number.text for number in found)


@given(st.integers(0, 10**15 - 1))
def test_words_of_a_number_have_its_value(value: int) -> None:
    assert [number.value for number in numerals.find(numerals.in_words(value))] == [value]


@given(st.integers(0, 10**12), st.booleans())
def test_digits_of_a_number_have_its_value(value: int, thousands: bool) -> None:
    said = f"{value:,}" if thousands else str(value)
    assert [number.value for number in numerals.find(said)] == [value]


def test_in_words_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="is not in"):
        numerals.in_words(-1)
