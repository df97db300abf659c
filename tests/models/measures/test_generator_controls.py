"""Controls change what they say, and a row's own do not depend on the other rows."""

from collections import Counter

import numpy as np
import pytest

from tercet.models import seeding
from tercet.models.measures.generator_controls import (
    DELETED,
    REPLACED,
    SYNONYMS,
    controls,
    synonyms,
)

SOURCES = [f"s{i} one two three four five six seven eight nine" for i in range(12)]
TARGETS = [f"t{i}" for i in range(12)]
IDS = seeding.text_ids(SOURCES)
FOUND = controls(IDS, SOURCES, TARGETS, 3, 5)


def test_what_there_is() -> None:
    assert FOUND["human"] == [[text] for text in TARGETS]
    assert FOUND["copy"] == [[text] for text in SOURCES]
    others = set(FOUND) - {"human", "copy"}
    assert others == {*REPLACED, *DELETED, "shuffle", "random_sentence"}
    assert {len(texts) for name in others for texts in FOUND[name]} == {3}


@pytest.mark.parametrize(("name", "count"), [("10", 1), ("20", 2), ("33", 3)])
def test_so_many_words_are_replaced_and_deleted(name: str, count: int) -> None:
    pool = {word for text in SOURCES for word in text.split()}
    changed = []
    for source, texts in zip(SOURCES, FOUND[f"replaced_{name}"], strict=True):
        for text in texts:
            words = text.split()
            assert len(words) == 10
            assert set(words) <= pool
            changed.append(sum(a != b for a, b in zip(words, source.split(), strict=True)))
    # A word may be replaced by itself.
    assert max(changed) == count
    assert np.mean(changed) > 0.7 * count
    for source, texts in zip(SOURCES, FOUND[f"deleted_{name}"], strict=True):
        for text in texts:
            left = iter(source.split())
            assert len(text.split()) == 10 - count
            # What is left is in order.
            assert all(word in left for word in text.split())


def test_shuffle_keeps_the_words_and_other_sentences_are_others() -> None:
    for source, texts in zip(SOURCES, FOUND["shuffle"], strict=True):
        assert all(Counter(text.split()) == Counter(source.split()) for text in texts)
    assert any(texts[0] != source for texts, source in zip(FOUND["shuffle"], SOURCES, strict=True))
    for source, texts in zip(SOURCES, FOUND["random_sentence"], strict=True):
        assert source not in texts
        assert set(texts) <= set(SOURCES)


def test_copies_differ_and_the_seed_decides() -> None:
    assert any(len(set(texts)) > 1 for texts in FOUND["replaced_33"])
    assert controls(IDS, SOURCES, TARGETS, 3, 5) == FOUND
    assert controls(IDS, SOURCES, TARGETS, 3, 6)["shuffle"] != FOUND["shuffle"]


def test_a_rows_draws_are_its_own() -> None:
    some = controls(IDS[4:], SOURCES[4:], TARGETS[4:], 3, 5)
    for name in (*DELETED, "shuffle"):
        assert some[name] == FOUND[name][4:]


def test_a_single_word_and_a_single_row() -> None:
    found = controls(IDS[:1], ["alone"], ["x"], 2, 5)
    assert found["deleted_33"] == [["alone", "alone"]]
    assert found["random_sentence"] == [["alone", "alone"]]


SOURCES_SYNONYM_CONTROL = [
    "the large engineer began to repair the broken machine quickly in the big garage",
    "xq zv",
    "the doctor bought a small automobile and a large house near the big river",
]
IDS_SYNONYM_CONTROL = seeding.text_ids(SOURCES_SYNONYM_CONTROL)


def changed(source: str, text: str) -> int:
    return sum(a != b for a, b in zip(source.split(), text.split(), strict=False))


def test_so_many_words_are_exchanged_at_most() -> None:
    found = synonyms(IDS_SYNONYM_CONTROL, SOURCES_SYNONYM_CONTROL, 3, 5)
    assert tuple(found) == SYNONYMS
    for number in (0, 2):
        of_one, of_four = (found[name][number] for name in ("synonym_1", "synonym_4"))
        assert len(of_one) == len(of_four) == 3
        assert len(set(of_one)) > 1
        assert all(text != SOURCES_SYNONYM_CONTROL[number] for text in of_one + of_four)
        # A synonym may be of two words, which moves those behind it.
        assert changed(SOURCES_SYNONYM_CONTROL[number], of_four[0]) > 1
    assert all(texts[1] == [SOURCES_SYNONYM_CONTROL[1]] * 3 for texts in found.values())


def test_a_rows_texts_are_its_own() -> None:
    found, some = (
        synonyms(IDS_SYNONYM_CONTROL[start:], SOURCES_SYNONYM_CONTROL[start:], 2, 5)
        for start in (0, 2)
    )
    assert {name: texts[2:] for name, texts in found.items()} == some
