"""The lexicon's two forms, its own data, and what a wrong file is told."""

import gzip
import time
from collections import Counter
from pathlib import Path

import pytest

from tercet.models.english.words import STOP_WORDS
from tercet.models.knowledge.lexicon import Group, load_lexicon, load_pairs

WORDNET = (
    "synset_id\tpos\tlexfile\tmembers\tdefinition\texamples\n"
    "1-n\tn\tnoun.animal\tmutt|cur\ta dog\t\n"
    "2-n\tn\tnoun.person\tcur\ta rude man\t\n"
    "3-v\tv\tverb.motion\tamble|stroll\tto walk\t\n"
    "4-n\tn\tnoun.location\tReading\ta town\t\n"
    "5-n\tn\tnoun.act\treading|perusal\tthe act\t\n"
    "6-n\tn\tnoun.group\tNATO\tan alliance\t\n"
    "7-a\ta\tadj.all\tred\ta colour\t\n"
)


def test_our_lexicon_has_many_typed_nouns_and_no_closed_class_word() -> None:
    lexicon = load_lexicon()
    assert len(lexicon.nouns) >= 600
    assert len(lexicon.types) >= 14
    assert not STOP_WORDS & set(lexicon.nouns)
    assert lexicon.types_of("matrix") == ("data",)
    assert lexicon.types_of("kernel") == ("system", "learning")
    assert lexicon.types_of("October") == ("time",)
    assert lexicon.types_of("october") == ()
    assert lexicon.types_of("no such noun") == ()


def test_our_pairs_are_words_of_one_part_of_speech() -> None:
    synonyms, antonyms = load_pairs()
    assert len(synonyms) >= 300
    assert len(antonyms) >= 290
    assert all(len(pair.words) == 2 and len(set(pair.words)) == 2 for pair in antonyms)
    assert all(len(set(group.words)) == len(group.words) > 1 for group in synonyms)
    parts = {"noun", "verb", "adjective", "adverb", "preposition", "linking", "entity"}
    assert {group.pos for group in (*synonyms, *antonyms)} <= parts
    pairs = {frozenset(pair.words) for pair in antonyms}
    assert {frozenset(("increase", "decrease")), frozenset(("input", "output"))} <= pairs
    doubles = Counter((pair.pos, frozenset(pair.words)) for pair in antonyms)
    assert max(doubles.values()) == 1
    same = {frozenset((a, b)) for group in synonyms for a in group.words for b in group.words}
    assert not pairs & same


@pytest.mark.parametrize("packed", [False, True])
def test_wordnets_form_types_nouns_by_lexfile(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "net.tsv"
    path.write_bytes(gzip.compress(WORDNET.encode()) if packed else WORDNET.encode())
    lexicon = load_lexicon(path)
    assert lexicon.types_of("mutt") == ("animal",)
    assert lexicon.types_of("cur") == ("animal", "person")
    assert lexicon.types_of("reading") == ("act",)
    assert lexicon.types_of("Reading") == ("location", "act")
    assert lexicon.types_of("red") == ()
    assert lexicon.nouns == ("mutt", "cur", "reading", "perusal", "nato")
    own = set(load_pairs()[0])
    # "cur" has two meanings, so that "mutt" is left alone.
    assert [group for group in lexicon.synonyms if group not in own] == [
        Group("verb", ("amble", "stroll"))
    ]


def test_a_users_file_of_our_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(
        "noun\ttypes\tsynonyms\tantonyms\nwidget\tpart|tool\tgadget\t\nhot spot\tplace\t\tlull\n"
    )
    lexicon = load_lexicon(path)
    assert lexicon.types == ("part", "tool", "place")
    assert lexicon.types_of("widget") == ("part", "tool")
    assert lexicon.types_of("hot spot") == ("place",)
    assert lexicon.synonyms[-1] == Group("noun", ("widget", "gadget"))
    assert lexicon.antonyms[-1] == Group("noun", ("hot spot", "lull"))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"noun\ttypes\n", None),
        (b"noun\ttypes\ncat\tanimal\ndog\n", 3),
        (b"noun\ttypes\tcolour\ncat\tanimal\tred\n", 1),
        (b"noun\ttypes\ncat\tanimal\nd\xffg\tanimal\n", 3),
        (WORDNET.encode() + b"8-x\tx\tnoun.act\tthing\td\te\n", 9),
        (b"\x1f\x8bbroken", None),
        (None, None),
    ],
)
def test_a_wrong_file_is_told_where(
    tmp_path: Path, content: bytes | None, line: int | None
) -> None:
    path = tmp_path / "wrong.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=f"line {line}" if line else "wrong") as caught:
        load_lexicon(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("noun\ttypes\ncat\tanimal\n")
    assert load_lexicon(path) is load_lexicon(path)
    path.write_text("noun\ttypes\ncat\tanimal\ncow\tanimal\n")
    assert load_lexicon(path).nouns == ("cat", "cow")


def test_open_english_wordnet_loads_soon(shared_data: Path) -> None:
    started = time.thread_time()
    lexicon = load_lexicon(shared_data / "lexicon" / "oewn2024_definitions.tsv.gz")
    assert time.thread_time() - started < 6
    assert len(lexicon.nouns) > 100_000
    assert "food" in lexicon.types
    assert "animal" in lexicon.types_of("horse")
    assert len(lexicon.synonyms) > 10_000
