"""N-grams of words, against those counted by hand."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tercet.models import seeding
from tercet.models.text.shingles import grams, spaced, word_hashes

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=7), min_size=1, max_size=6)


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
