"""Overlap of texts, against the literal definitions."""

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models.text import overlap
from tercet.models.text.overlap import Index, Matches, words_of

# Few words, so that texts share many of them.
_TEXTS = st.lists(st.lists(st.sampled_from(list("abcdef")), max_size=12).map(" ".join), max_size=12)


def pairs(found: Matches) -> dict[tuple[int, int], float]:
    rows, sentences, scores = found.rows.tolist(), found.sentences.tolist(), found.scores.tolist()
    made = {(r, s): v for r, s, v in zip(rows, sentences, scores, strict=True)}
    assert len(made) == len(found)
    return made


def index(
    sentences: Sequence[str], order: int = 3, min_words: int = 1, least: float = 0.5
) -> Index:
    return Index(pa.array(sentences, pa.string()), order, min_words, least)


def column(texts: Sequence[str]) -> overlap.Words:
    return words_of(pa.array(texts, pa.string()))


def one_apart(text: list[str], sentence: list[str]) -> bool:
    """The definition: one word is another, or one side has one word more."""
    if len(text) == len(sentence):
        return sum(a != b for a, b in zip(text, sentence, strict=True)) <= 1 and bool(text)
    short, long = sorted((text, sentence), key=len)
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def grams(words: list[str], order: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + order]) for i in range(len(words) - order + 1)}


@settings(deadline=None, max_examples=60)
@given(_TEXTS, _TEXTS)
def test_exact_and_near_are_what_they_say(texts: list[str], sentences: list[str]) -> None:
    found = index(sentences, min_words=2)
    exact, near = pairs(found.exact(column(texts))), pairs(found.near(column(texts)))
    for row, text in enumerate(texts):
        for number, sentence in enumerate(sentences):
            key, a, b = (row, number), text.split(), sentence.split()
            letters = text.replace(" ", "") == sentence.replace(" ", "")
            assert (key in exact) == (letters and bool(a) and bool(b))
            assert (key in near) == (len(b) >= 2 and one_apart(a, b))
            if key in near:
                assert near[key] == pytest.approx(1 - 1 / max(len(a), len(b)))


@settings(deadline=None, max_examples=60)
@given(_TEXTS, _TEXTS, st.sampled_from([2, 3, 4]), st.sampled_from([0.2, 0.5, 0.7, 1.0]))
def test_shares_are_counted_one_by_one(
    texts: list[str], sentences: list[str], order: int, least: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_PAIRS", 3)
        found = pairs(index(sentences, order, 3, least).shares(column(texts)))
    wanted = {}
    for row, text in enumerate(texts):
        for number, sentence in enumerate(sentences):
            own = grams(sentence.split(), order)
            if len(sentence.split()) < 3 or not own:
                continue
            share = len(own & grams(text.split(), order)) / len(own)
            if share >= least - 1e-9 and share > 0:
                wanted[row, number] = share
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The dog's bowl isn't full!", "the dog 's bowl is n't full ."),
        ("A well-known, SMALL café", "a well known small cafe\u0301"),
        ("ﬁve wagons – in ①", "five wagons in 1"),
    ],
)
def test_what_a_tokeniser_did_does_not_count(text: str, other: str) -> None:
    assert pairs(index([other]).exact(column([text]))) == {(0, 0): 1.0}
    assert overlap.normalised(pa.array([text])) == overlap.normalised(pa.array([other]))


def test_texts_without_a_word_are_like_nothing() -> None:
    found = index(["", "...", "a b c"])
    for level in (found.exact, found.near, found.shares):
        assert len(level(column(["", "!!", "…"]))) == 0
    assert len(index([]).near(column(["a b"]))) == 0


def test_texts_of_one_word_are_near_to_none_of_another_word() -> None:
    found = pairs(
        index(["今天天气很好", "ballad", "ballad two"]).near(column(["你叫什么名字", "ballad"]))
    )
    assert found == {(1, 2): 0.5}


def test_a_frequent_n_gram_makes_no_pair_alone() -> None:
    """Sentences that begin alike: only rare ends are looked at, or it would take 4e8 pairs."""
    sentences = [f"there is a man who has item{i} and item{i + 1}" for i in range(20_000)]
    texts = [f"there is a man who has thing{i} and thing{i + 1}" for i in range(20_000)]
    found, began = index(sentences, 3, 4, 0.7), time.thread_time()
    assert len(found.shares(column(texts))) == 0
    assert len(found.shares(column(sentences))) == 20_000
    assert time.thread_time() - began < 5


def test_vectors_are_compared_in_blocks() -> None:
    draw = np.random.default_rng(3)
    a, b = (draw.normal(size=(n, 5)).astype(np.float32) for n in (23, 17))
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
    found = pairs(overlap.near_vectors(a, b, 0.6, block=4))
    cosines = a @ b.T
    wanted = {(i, j): float(cosines[i, j]) for i, j in np.argwhere(cosines >= 0.6).tolist()}
    assert found == pytest.approx(wanted, abs=1e-6)
    assert wanted
