import pytest

from tercet.models.english.articles import replaced, wants_an


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
