"""Like texts are found, all of them and no others, against the literal definition."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models import seeding
from tercet.tasks.corpus.near_duplicates import Texts, Writer

SETS = st.lists(st.lists(st.integers(0, 30), max_size=40), max_size=12)


def written(folder: Path, texts: list[list[int]], batch: int = 3) -> Texts:
    writer = Writer(folder / "near_duplicates")
    for start in range(0, len(texts), batch):
        some = texts[start : start + batch]
        flat = [str(word) for text in some for word in text]
        writer.add(seeding.text_ids(flat), np.array([len(text) for text in some]))
    return writer.texts()


def alike(one: list[int], other: list[int]) -> bool:
    a, b = set(one), set(other)
    return bool(a and b) and 5 * len(a & b) >= 4 * len(a | b)


@given(SETS, st.data())
@settings(deadline=None, max_examples=150)
def test_rows_like_a_flagged_one_are_those_of_the_definition(
    texts: list[list[int]], data: st.DataObject
) -> None:
    # Near copies, which chance alone seldom makes.
    for text in list(texts):
        texts.append([w for w in text if w != data.draw(st.integers(0, 30))] + [31])
    flagged = np.array([data.draw(st.booleans()) for _ in texts], dtype=np.bool_)
    with TemporaryDirectory() as folder:
        found = written(Path(folder), texts).shared_with(flagged)
    expected = [
        not flagged[i] and any(flagged[j] and alike(one, texts[j]) for j in range(len(texts)))
        for i, one in enumerate(texts)
    ]
    assert found.tolist() == expected


def test_documents_are_tied_to_the_earliest_and_later_ones_change_nothing(tmp_path: Path) -> None:
    base = list(range(10))
    texts = [base, [50], [*base, 11], [60, 61], [*base, 12], [61, 60]]
    documents = np.array([0, 0, 1, 2, 3, 4], dtype=np.int32)
    made = written(tmp_path, texts)
    assert made.ties(documents, 5, max_frequency=5).tolist() == [0, 0, 2, 0, 2]
    assert made.ties(documents, 5, max_frequency=1).tolist() == [0, 1, 2, 3, 4]
    more = [*texts, base, [70]]
    (tmp_path / "more").mkdir()
    later = written(tmp_path / "more", more)
    tied = later.ties(np.append(documents, [5, 6]).astype(np.int32), 7, max_frequency=5)
    assert tied.tolist() == [0, 0, 2, 0, 2, 0, 6]


def test_a_large_family_is_decided_in_few_rounds(tmp_path: Path) -> None:
    family = [[*range(20), 100 + number] for number in range(3000)]
    flagged = np.arange(3000) < 1500
    found = written(tmp_path, family, 1000).shared_with(flagged)
    assert found.sum() == 1500


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10, 23, 24, 29, 30, 95, 96, 119, 120, 200])
def test_near_copies_of_any_size_are_found_whatever_word_they_lack(
    tmp_path: Path, size: int
) -> None:
    draw = np.random.default_rng(size)
    texts, expected = [], []
    for _ in range(20):
        one = draw.choice(500, size, replace=False).tolist()
        gone = set(draw.choice(size, size // 5, replace=False).tolist())
        other = [word for place, word in enumerate(one) if place not in gone]
        texts += [one, other]
        expected += [True, False]
        assert alike(one, other)
    flagged = np.array(expected) == (size % 2 == 0)  # the larger ones, then the smaller ones
    found = written(tmp_path, texts, 7).shared_with(flagged)
    assert found[~flagged].all()
    assert not found[flagged].any()
