"""Shingles, clusters and exclusion against slow literal references."""

import unicodedata

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models.text.shingles import GRAM, shared_words, shingles
from tercet.tasks.corpus import splits

WORDS = st.sampled_from(["ab", "cd", "ef", "é1", "it's"])
SENTENCES = st.lists(WORDS, min_size=0, max_size=14).map(" ".join)
DOCUMENT = st.lists(st.lists(SENTENCES, min_size=1, max_size=3), min_size=1, max_size=2)


def words_of(text: str) -> list[str]:
    kept = [c if unicodedata.category(c)[0] in "LMN" else " " for c in text.lower()]
    return "".join(kept).split()


def literal_shingles(paragraph: list[str]) -> set[tuple[tuple[str, ...], int]]:
    """(shingle as words, sentence in which it begins)."""
    found = set()
    flat = [(word, row) for row, text in enumerate(paragraph) for word in words_of(text)]
    for start in range(len(flat) - GRAM + 1):
        piece = flat[start : start + GRAM]
        found.add((tuple(word for word, _ in piece), piece[0][1]))
    for row, text in enumerate(paragraph):
        if 0 < len(words_of(text)) < GRAM:
            found.add((("short", *words_of(text)), row))
    return found


def numbered(
    documents: list[list[list[str]]],
) -> tuple[list[str], np.ndarray, np.ndarray, dict[tuple[str, ...], set[int]]]:
    """Rows' texts, paragraphs and documents, and the rows of each literal shingle."""
    texts, paragraphs, owners = [], [], []
    literal: dict[tuple[str, ...], set[int]] = {}
    for document, parts in enumerate(documents):
        for part in parts:
            number = paragraphs[-1] + 1 if paragraphs else 0
            for shingle, row in literal_shingles(part):
                literal.setdefault(shingle, set()).add(len(texts) + row)
            texts += part
            paragraphs += [number] * len(part)
            owners += [document] * len(part)
    arrays = (np.array(paragraphs, dtype=np.int32), np.array(owners, dtype=np.int32))
    return texts, *arrays, literal


@settings(max_examples=150, deadline=None)
@given(st.lists(DOCUMENT, min_size=1, max_size=6), st.integers(1, 3))
def test_marks_and_leaders_are_the_literal_ones(
    documents: list[list[list[str]]], rare: int
) -> None:
    texts, paragraphs, owners, literal = numbered(documents)
    found, rows = shingles(texts, paragraphs)
    assert (np.diff(rows) >= 0).all()
    by_shingle: dict[int, set[int]] = {}
    for shingle, row in zip(found.tolist(), rows.tolist(), strict=True):
        by_shingle.setdefault(shingle, set()).add(row)
    assert sorted(map(sorted, by_shingle.values())) == sorted(map(sorted, literal.values()))

    expected = list(range(len(documents)))
    for rows_of_mark in literal.values():
        holders = sorted({int(owners[row]) for row in rows_of_mark})
        for holder in holders[:rare]:
            expected[holder] = min(expected[holder], holders[0])
    for document in range(len(documents)):  # a leader stands further up, hence is final already
        expected[document] = expected[expected[document]]
    shared = splits.SharedShingles(found, rows)
    assert splits.leaders(shared.ties(owners, len(documents), rare)).tolist() == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(DOCUMENT, min_size=2, max_size=6), st.data())
def test_exclusion_leaves_no_mark_on_two_sides(
    documents: list[list[list[str]]], data: st.DataObject
) -> None:
    texts, paragraphs, owners, literal = numbered(documents)
    split = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(documents), max_size=len(documents))),
        dtype=np.int8,
    )[owners]
    kept = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), dtype=np.bool_
    )
    shared = splits.SharedShingles(*shingles(texts, paragraphs))
    with_test, with_dev = splits.excluded(shared.shared_with, split, kept)
    stands = kept & ~with_test & ~with_dev
    assert (stands | (split != splits.TEST))[kept].all()  # nothing of test is given up
    for rows in literal.values():
        sides = {int(split[row]) for row in rows if stands[row]}
        assert len(sides) <= 1
    for row in np.flatnonzero(kept & (with_test | with_dev)):
        others = {
            int(split[o]) for rows in literal.values() if row in rows for o in rows if kept[o]
        }
        assert max(others) > split[row]


def test_marks_ignore_case_punctuation_and_white_space() -> None:
    one = "The quick, brown FOX jumps over the lazy dog."
    other = "the quick brown fox jumps over the lazy dog and more"
    found, rows = shingles([one, other, "!?", "Yes!", "yes"], np.arange(5, dtype=np.int32))
    shared = splits.SharedShingles(found, rows)
    flags = np.array([True, False, False, True, False])
    assert shared.shared_with(flags).tolist() == [True, True, False, True, True]
    assert np.bincount(rows, minlength=5).tolist() == [2, 4, 0, 1, 1]


@settings(max_examples=100, deadline=None)
@given(st.lists(SENTENCES, max_size=6), st.lists(SENTENCES, max_size=6))
def test_shared_words_are_the_literal_ones(texts: list[str], others: list[str]) -> None:
    known, _ = shingles(others, np.arange(len(others), dtype=np.int32))
    literal = {shingle for other in others for shingle, _ in literal_shingles([other])}
    rows, words = shared_words(pa.array(texts, pa.string()), np.sort(known))
    expected = {}
    for row, text in enumerate(texts):
        held = [shingle for shingle, _ in literal_shingles([text]) if shingle in literal]
        if held:
            pieces = ([word for word in shingle if word != "short"] for shingle in held)
            expected[row] = {" ".join(words_of(" ".join(piece))) for piece in pieces}
    assert rows.tolist() == list(expected)
    assert all(said in expected[row] for row, said in zip(rows.tolist(), words, strict=True))


def test_splits_follow_the_leader_and_the_fractions() -> None:
    ids = np.random.default_rng(0).integers(0, 2**63, 20_000).astype(np.uint64)
    leader = (np.arange(20_000, dtype=np.int32) // 2) * 2
    split = splits.assign(leader, ids, seed=3, dev=0.1, test=0.2, largest=0.03)
    assert (split[::2] == split[1::2]).all()
    shares = np.bincount(split, minlength=3) / len(split)
    assert np.allclose(shares, [0.7, 0.1, 0.2], atol=0.02)
    assert (splits.assign(leader, ids, 4, 0.1, 0.2, 0.03) != split).any()


def test_documents_of_a_page_follow_its_first_and_those_of_a_book_do_not() -> None:
    pages, book = np.repeat(np.arange(0, 300, 3), 3), np.full(60, 300)
    file_of_document = np.concatenate([pages, book]).astype(np.int32)
    first = splits.whole_files(file_of_document, largest=0.03)
    assert first.tolist() == [*pages.tolist(), *range(300, 360)]
    ties = np.arange(360, dtype=np.int32)
    # The second document of a page is like an earlier one, and the first one of another page.
    ties[10], ties[12] = 0, 4
    leader = splits.leaders(ties, first=first)
    assert leader[9:15].tolist() == [9, 9, 9, 3, 3, 3]


def test_a_cluster_of_common_phrasing_goes_to_train() -> None:
    ids = np.arange(1000, dtype=np.uint64)
    leader = np.zeros(1000, dtype=np.int32)
    for seed in range(5):
        assert (splits.assign(leader, ids, seed, 0.4, 0.5, 0.03) == splits.TRAIN).all()
    small = splits.assign(leader[:200], ids[:200], 0, 0.0, 0.99, 0.03)
    assert len(set(small.tolist())) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(DOCUMENT, min_size=2, max_size=8), st.integers(1, 7))
def test_leaders_do_not_depend_on_documents_behind(
    documents: list[list[list[str]]], cut: int
) -> None:
    def leaders(some: list[list[list[str]]]) -> list[int]:
        texts, paragraphs, owners, _ = numbered(some)
        shared = splits.SharedShingles(*shingles(texts, paragraphs))
        return splits.leaders(shared.ties(owners, len(some), 2)).tolist()

    assert leaders(documents)[:cut] == leaders(documents[:cut])
