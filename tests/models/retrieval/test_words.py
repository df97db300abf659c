import unicodedata

import pytest

from tercet.models.retrieval.words import split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The pump's v2 is at 10, a B.", ["the", "pump", "v2", "is", "at", "10"]),
        ("锅炉与pump", ["锅炉", "炉与", "pump"]),
        ("水 と ポンプー", ["水", "と", "ポン", "ンプ", "プー"]),
        ("보일러는", ["보일", "일러", "러는"]),
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split(text) == words


def test_two_forms_of_a_letter_are_one() -> None:
    text = "Café ガス"
    assert split(unicodedata.normalize("NFD", text)) == split(text)
    assert split("ｶﾞｽ ＡＢ１") == ["ガス", "ab1"]
