"""Words of texts, in Python and in SQL."""

import duckdb
import pytest

from tercet.models.text.words import count_words, is_unspaced, words_sql


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 1),
        ("A heron , so to speak .", 7),
        ("Größe über alles", 3),
        ("한국어 문장은 띄어 쓴다", 4),
        ("老木匠在港口修好了渔船", 6),
        ("花了9896块钱。", 3),
        ("用 GPT-4 写一句话", 3),
        ("ช่างไม้ซ่อมเรือ", 4),
        ("ཉ་པས་གྲུ་རྙིང་པ་བཟོས།", 5),
        ("ᥛᥫᥒᥰᥖᥭᥰᥘᥫᥒᥲ", 3),
    ],
)
def test_what_stands_between_spaces_and_letters_of_scripts_without(text: str, words: int) -> None:
    assert count_words(text) == words
    query = f"SELECT {words_sql('t')} FROM (SELECT $t AS t)"
    assert duckdb.execute(query, {"t": text}).fetchall() == [(words,)]


def test_most_letters_say_whether_a_text_has_spaces() -> None:
    assert is_unspaced("用 GPT-4 写一句很长的话")
    assert not is_unspaced("The word 水 means water.")
    assert not is_unspaced("한국어 문장")
