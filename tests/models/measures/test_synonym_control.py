"""The rule's texts as a control: so many words exchanged, and a row's own whatever the others."""

from tercet.models import seeding
from tercet.models.measures.synonym_control import SYNONYMS, synonyms

SOURCES = [
    "the large engineer began to repair the broken machine quickly in the big garage",
    "xq zv",
    "the doctor bought a small automobile and a large house near the big river",
]
IDS = seeding.text_ids(SOURCES)


def changed(source: str, text: str) -> int:
    return sum(a != b for a, b in zip(source.split(), text.split(), strict=False))


def test_so_many_words_are_exchanged_at_most() -> None:
    found = synonyms(IDS, SOURCES, 3, 5)
    assert tuple(found) == SYNONYMS
    for number in (0, 2):
        of_one, of_four = (found[name][number] for name in ("synonym_1", "synonym_4"))
        assert len(of_one) == len(of_four) == 3
        assert len(set(of_one)) > 1
        assert all(text != SOURCES[number] for text in of_one + of_four)
        # A synonym may be of two words, which moves those behind it.
        assert changed(SOURCES[number], of_four[0]) > 1
    assert all(texts[1] == [SOURCES[1]] * 3 for texts in found.values())


def test_a_rows_texts_are_its_own() -> None:
    found, some = (synonyms(IDS[start:], SOURCES[start:], 2, 5) for start in (0, 2))
    assert {name: texts[2:] for name, texts in found.items()} == some
