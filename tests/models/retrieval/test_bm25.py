"""BM25: words, scores, snippets, and the way over the disk."""

import math
import unicodedata
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pytest

from tercet.models.retrieval import bm25
from tercet.models.retrieval.bm25 import snippet, word_places, words_of
from tercet.models.retrieval.rankings import NONE
from tercet.models.retrieval.words import split

DOCUMENTS = [
    "The pump feeds the boiler; a second pump stands by.",
    "Boilers are inspected every year.",
    "A valve closes when pumping stops.",
    "",
    "Die Pumpe speist den Kessel.",
    # Shows the language, and leaves no word of its own.
    "of the and that it is in for with as are " * 12,
]


def test_scores_are_those_of_the_formula() -> None:
    """Lucene's BM25, written out; the words as Snowball stems them."""
    words = [
        ["pump", "feed", "boiler", "second", "pump", "stand"],
        ["boiler", "inspect", "everi", "year"],
        ["valv", "close", "when", "pump", "stop"],
        [],
        ["die", "pump", "speist", "den", "kessel"],
        [],
    ]
    mean = sum(map(len, words)) / len(words)
    expected = []
    for of_document in words:
        counts, score = Counter(of_document), 0.0
        for word in ("pump", "boiler"):
            documents = sum(word in other for other in words)
            idf = math.log(1 + (len(words) - documents + 0.5) / (documents + 0.5))
            tf = counts[word]
            score += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(of_document) / mean))
        expected.append(score)
    places, scores = bm25.search(bm25.build(DOCUMENTS), ["pumps and boilers"], 6)
    found = {p: s for p, s in zip(places[0].tolist(), scores[0].tolist(), strict=True) if p != NONE}
    assert found == pytest.approx({p: s for p, s in enumerate(expected) if s > 0}, abs=1e-5)
    assert scores[0].tolist() == sorted(scores[0].tolist(), reverse=True)


def test_what_shares_no_word_is_not_found() -> None:
    index = bm25.build(DOCUMENTS)
    places, scores = bm25.search(index, ["unrelated", "", "the of and"], 2)
    assert (places == NONE).all()
    assert (scores == 0).all()


def test_another_language_is_neither_stemmed_nor_stripped() -> None:
    german = [
        "Die Pumpe speist den Kessel und wird von der Steuerung im Keller geregelt.",
        "Das Ventil schließt, sobald der Druck unter zwei bar fällt oder the Pumpen stehen.",
    ] * 10
    places, _ = bm25.search(bm25.build(german), ["den pumpe", "the", "pumpen"], 20)
    found = [{place % 2 for place in row if place != NONE} for row in places.tolist()]
    assert found == [{0}, {1}, {1}]


def test_few_documents_are_not_stemmed() -> None:
    places, _ = bm25.search(bm25.build(["Zwei Pumpen", "die Pumpe"]), ["pumpe"], 2)
    assert places.tolist() == [[1, NONE]]


def test_what_a_script_without_spaces_shares_is_found() -> None:
    places, _ = bm25.search(
        bm25.build(["锅炉需要维修", "水泵需要维修", "ポンプ"]), ["水泵的维修", "の"], 2
    )
    assert places.tolist() == [[1, 0], [NONE, NONE]]


def test_of_equal_scores_the_smaller_place_comes_first() -> None:
    places, _ = bm25.search(bm25.build(["some valve"] * 7), ["valve"], 3)
    assert places.tolist() == [[0, 1, 2]]


def test_the_index_is_that_of_bm25s_however_many_are_read() -> None:
    rng = np.random.default_rng(3)
    # More than are read at once.
    lengths = rng.integers(0, 8, 9_000)
    words = [[f"w{n}" for n in rng.zipf(1.4, length) % 60] for length in lengths]
    whole = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    whole.index(words, show_progress=False)
    found = bm25.build(" ".join(some) for some in words)
    assert (found.documents, found.average) == (9_000, lengths.mean())
    for query in (["w1"], ["w7", "w7", "w3"], [f"w{n}" for n in range(60)]):
        known = [word for word in query if word in found.index.vocab_dict]
        np.testing.assert_allclose(
            found.index.get_scores(known), whole.get_scores(known), rtol=2e-6
        )


@pytest.mark.parametrize("documents", [[], ["", " "], ["the"]])
def test_documents_without_words(documents: list[str]) -> None:
    places, _ = bm25.search(bm25.build(documents), ["valve"], 1)
    assert places.tolist() == [[NONE]]


def test_a_cut_ranking_is_the_head_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 40, 12)) for _ in range(300)]
    index = bm25.build(texts)
    whole, _ = bm25.search(index, ["w1 w2 w3 w4"], 300)
    cut, _ = bm25.search(index, ["w1 w2 w3 w4"], 20)
    assert cut.tolist() == whole[:, :20].tolist()


def test_any_text_is_scored_as_if_it_were_found() -> None:
    rng = np.random.default_rng(2)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 40, rng.integers(1, 20))) for _ in range(90)]
    index, query = bm25.build(texts), "w1 w2 w2 w3 w99"
    places, scores = bm25.search(index, [query], 90)
    found = np.zeros(90)
    found[places[0][places[0] != NONE]] = scores[0][places[0] != NONE]
    assert (found > 0).sum() > 20
    assert bm25.score(index, [query] * 90, texts) == pytest.approx(found, abs=1e-5)
    # Neither is one of them: "w1" among one word, and no word of theirs.
    short, none = bm25.score(index, [query] * 2, ["w1", "w99"])
    assert short > 0
    assert none == 0
    assert bm25.score(bm25.build([""]), ["w1"], ["w1"]).tolist() == [0]


@pytest.mark.parametrize(
    "documents",
    [
        ["The cats sat on the mats.", "A dog barks."] * 5,
        ["Der Hund bellt.", "Die Katze"],
        ["", "!"],
    ],
)
def test_an_index_survives_the_way_over_the_disk(tmp_path: Path, documents: list[str]) -> None:
    built = bm25.build(documents)
    bm25.save(built, tmp_path / "index")
    read = bm25.load(tmp_path / "index")
    assert (read.english, read.documents) == (built.english, built.documents)
    for query in ("cat", "Hund", "the", "?"):
        wanted, found = bm25.search(built, [query], 4), bm25.search(read, [query], 4)
        assert [array.tolist() for array in found] == [array.tolist() for array in wanted]


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
