"""Words of texts, in Python and in SQL, their runs, halves and language."""

import unicodedata

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models import seeding
from tercet.models.text.halves import halves
from tercet.models.text.languages import is_english, share_of_english
from tercet.models.text.shingles import grams, spaced, word_hashes
from tercet.models.text.words import count_words, is_unspaced, words_sql

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=7), min_size=1, max_size=6)
TEN = "one two three four five six seven eight nine ten"


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


def test_words_are_letters_accents_and_digits() -> None:
    texts = pa.array(["it's  a Größe, 3.5!", "  ", "…"])
    assert spaced(texts).to_pylist() == ["it s a Größe 3 5", "", ""]
    hashes, counts = word_hashes(spaced(texts))
    assert counts.tolist() == [6, 0, 0]
    assert hashes[3] == seeding.text_id("Größe")


def test_letters_of_scripts_without_spaces_are_words() -> None:
    texts = pa.array(["老木匠，GPT", "ཉ་པས་གྲུ།", "ㄌㄠㄇ", "ช่างไม้"])
    assert spaced(texts).to_pylist() == ["老木 匠 GPT", "ཉ པས གྲུ", "ㄌㄠ ㄇ", "ช่าง ไม้"]


@given(TEXTS, st.integers(1, 4))
def test_equal_runs_of_words_have_equal_hashes_and_no_other(
    texts: list[list[str]], order: int
) -> None:
    hashes, counts = word_hashes(pa.array([" ".join(words) for words in texts]))
    assert counts.tolist() == [len(words) for words in texts]
    owners = np.repeat(np.arange(len(texts)), counts)
    found, places = grams(hashes, owners, order)
    starts = np.cumsum(counts) - counts
    runs = [
        (int(start) + i, tuple(words[i : i + order]))
        for start, words in zip(starts, texts, strict=True)
        for i in range(len(words) - order + 1)
    ]
    assert places.tolist() == [place for place, _ in runs]
    by_hash = dict(zip(found.tolist(), (run for _, run in runs), strict=True))
    assert [by_hash[value] for value in found.tolist()] == [run for _, run in runs]
    assert len(by_hash) == len({run for _, run in runs})


def test_several_sentences_are_cut_between_two_of_them_where_the_sides_are_most_alike() -> None:
    text = ["The heron waits in the water.", "It sees a small fish.", "Then it strikes."]
    assert halves(text, 20) == (
        "The heron waits in the water.",
        "It sees a small fish. Then it strikes.",
    )


def test_one_sentence_is_cut_behind_a_comma_near_its_middle() -> None:
    words = f"{TEN}, {TEN} {TEN}".split()
    words[1] += ","
    first, second = halves([" ".join(words)], 20) or ("", "")
    assert (first.split()[-1], second.split()[0]) == ("ten,", "one")
    assert f"{first} {second}" == " ".join(words)


def test_a_sentence_without_a_pause_is_cut_in_its_middle() -> None:
    assert halves([f"{TEN} {TEN}"], 20) == (TEN, TEN)


def test_what_is_too_short_has_no_halves() -> None:
    # One far too short side is no side of its own.
    assert halves(["Well.", f"{TEN} {TEN}."], 20) is not None
    assert halves([TEN], 20) is None
    assert halves(["Yes indeed.", "No."], 20) is None
    assert halves(["日本語の文。" * 3], 20) is None


def test_a_script_without_spaces_is_cut_between_letters_at_a_pause() -> None:
    chinese = "老木匠在港口修好了三条旧渔船的木板，天黑以后又去市场买了两盒钉子。"
    assert halves([chinese], 8) == (chinese[:18], chinese[18:])
    bare = chinese.replace("，", "")
    first, second = halves([bare], 8) or ("", "")
    assert first + second == bare
    assert abs(len(first) - len(second)) <= 1
    thai = "ช่างไม้ซ่อมเรือประมงเก่าสามลำที่ท่าเรือเมื่อวานนี้ตอนเย็น"
    first, second = halves([thai], 8) or ("", "")
    assert first + second == thai
    assert not unicodedata.combining(second[0])


ENGLISH = "The pump that feeds the boiler is run by the controller in the cellar of the house. "
GERMAN = "Die Pumpe, die den Kessel speist, wird von der Steuerung im Keller des Hauses geregelt. "


def test_english_is_told_from_another_language() -> None:
    assert is_english([ENGLISH] * 10)
    assert not is_english([GERMAN] * 10)


def test_a_few_words_show_no_language() -> None:
    assert share_of_english([GERMAN]) is None
    assert not is_english([ENGLISH])
    assert not is_english([])
