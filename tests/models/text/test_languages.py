"""Texts in another script or language than their sources; doubtful ones are no difference."""

import pyarrow as pa
import pytest

from tercet.models.text.languages import (
    foreign_language,
    foreign_script,
    is_english,
    share_of_english,
)


def column(text: str) -> pa.ChunkedArray:
    return pa.chunked_array([[text]])


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("Он читает книгу.", "He reads a book.", True),
        ("He reads a book.", "Он читает книгу.", True),
        ("Het reads Толстой in the original.", "He reads Tolstoy.", False),
        ("彼は本を読む。", "彼は新しい本を書く。", False),
        ("Crème brûlée was served.", "Cream was served.", False),
        ("Он читает книгу.", "12 + 30 = 42", False),
    ],
)
def test_scripts(text: str, source: str, expected: bool) -> None:
    assert foreign_script(column(text), column(source)).tolist() == [expected]


ENGLISH = "The old bridge of the city was closed for repairs by the council."


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("Die alte Brücke der Stadt ist nicht mit dem Auto erreichbar.", ENGLISH, True),
        (
            "Le vieux pont de la ville est fermé, mais les travaux sont finis dans une semaine.",
            ENGLISH,
            True,
        ),
        ("The council of the city has closed the old bridge.", ENGLISH, False),
        # It quotes a title, and is English all the same.
        ("The film Der Untergang und das Ende was shown with subtitles.", ENGLISH, False),
        # Too short to tell.
        ("Die Brücke.", ENGLISH, False),
        ("Die alte Brücke der Stadt ist nicht mit dem Auto erreichbar.", "Bridge closed.", False),
    ],
)
def test_languages(text: str, source: str, expected: bool) -> None:
    assert foreign_language(column(text), column(source)).tolist() == [expected]


ENGLISH_SHARE = (
    "The pump that feeds the boiler is run by the controller in the cellar of the house. "
)
GERMAN = "Die Pumpe, die den Kessel speist, wird von der Steuerung im Keller des Hauses geregelt. "


def test_english_is_told_from_another_language() -> None:
    assert is_english([ENGLISH_SHARE] * 10)
    assert not is_english([GERMAN] * 10)


def test_a_few_words_show_no_language() -> None:
    assert share_of_english([GERMAN]) is None
    assert not is_english([ENGLISH_SHARE])
    assert not is_english([])
