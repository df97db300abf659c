"""The words of a query in a text: as the index reads them, and where most of them stand."""

from tercet.models.retrieval.bm25 import snippet, word_places, words_of


def found(text: str, query: str, english: bool = True) -> list[str]:
    (sought,) = map(set, words_of([query], english))
    return [text[begin:end] for begin, end, _ in word_places(text, sought, english)]


def test_words_are_found_by_their_stems() -> None:
    text = "The pumps were Pumping; a pump's valve (old) stops."
    assert found(text, "how is the pump stopped") == ["pumps", "Pumping", "pump", "stops"]
    assert found(text, "pump", english=False) == ["pump"]
    assert found(text, "the of") == []


def test_pairs_of_letters_are_found_within_a_script_without_spaces() -> None:
    assert found("如何打开旧文件,在哪里", "旧文件", english=False) == ["旧文", "文件"]
    assert found("설치하는 방법", "설치", english=False) == ["설치"]


def test_a_snippet_begins_where_most_words_are_found() -> None:
    text = f"An old file. {'Nothing is here. ' * 40}Open the old file with care. {'More. ' * 40}"
    piece = snippet(text, {"open", "old", "file"}, False, 120)
    assert piece.startswith("…")
    assert piece.endswith("…")
    assert "Open the old file with care." in piece
    assert len(piece) <= 120
    assert snippet(text, {"zzz"}, False, 120) == text[:119].rstrip() + "…"
    assert snippet("An old file.", {"file"}, False, 120) == "An old file."
    assert len(snippet("x" * 500, {"zzz"}, False, 120)) == 120
