from tercet.models.english.share import is_english, share_of_english

ENGLISH = "The pump that feeds the boiler is run by the controller in the cellar of the house. "
GERMAN = "Die Pumpe, die den Kessel speist, wird von der Steuerung im Keller des Hauses geregelt. "


def test_english_is_told_from_another_language() -> None:
    assert is_english([ENGLISH] * 10)
    assert not is_english([GERMAN] * 10)


def test_a_few_words_show_no_language() -> None:
    assert share_of_english([GERMAN]) is None
    assert not is_english([ENGLISH])
    assert not is_english([])
