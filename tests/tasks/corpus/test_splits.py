"""Shingles, clusters and exclusion against slow literal references."""

import errno
import unicodedata
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models import seeding
from tercet.models.text.shingles import GRAM, shared_words, shingles
from tercet.tasks.corpus import splits
from tercet.tasks.corpus.near_duplicates import Texts, Writer
from tercet.tasks.corpus.shared_keys import Group, SharedKeys

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


def groups_of(keys: np.ndarray, rows: np.ndarray) -> list[Group]:
    """All that is read, so that the files may go."""
    with TemporaryDirectory() as folder:
        written = SharedKeys(Path(folder) / "keys")
        half = len(keys) // 2
        for some in (slice(half, None), slice(half)):
            written.add(keys[some], rows[some])
        written.close()
        return list(written)


def shingles_of(keys: np.ndarray, rows: np.ndarray) -> splits.SharedShingles:
    return splits.SharedShingles(groups_of(keys, rows))


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9)), max_size=30))
def test_keys_that_rows_share_come_with_all_of_them_in_order(entries: list[Any]) -> None:
    entries += entries[::2] + [(key, row + 1) for key, row in entries[::3]]
    keys = np.array([key for key, _ in entries], dtype=np.uint64)
    found = groups_of(keys, np.array([row for _, row in entries], dtype=np.int32))
    listed = [
        pair for keys, rows, _ in found for pair in zip(keys.tolist(), rows.tolist(), strict=True)
    ]
    counts = Counter(key for key, _ in entries)
    assert listed == sorted(entry for entry in entries if counts[entry[0]] > 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_loses_no_key_silently(tmp_path: Path) -> None:
    written = SharedKeys(tmp_path / "keys")
    for path in (tmp_path / "keys").iterdir():
        path.unlink()
        path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        written.add(np.arange(3, dtype=np.uint64), np.arange(3))
    assert error.value.errno == errno.ENOSPC


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


@settings(max_examples=150)
@given(st.lists(DOCUMENT, min_size=1, max_size=6), st.integers(1, 3))
def test_marks_and_leaders_are_literal(documents: list[list[list[str]]], rare: int) -> None:
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
    shared = shingles_of(found, rows)
    assert splits.leaders(shared.ties(owners, len(documents), rare)).tolist() == expected


@settings(max_examples=150)
@given(st.lists(DOCUMENT, min_size=2, max_size=6), st.data())
def test_no_mark_is_on_two_sides(documents: list[list[list[str]]], data: st.DataObject) -> None:
    texts, paragraphs, owners, literal = numbered(documents)
    split = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(documents), max_size=len(documents))),
        dtype=np.int8,
    )[owners]
    kept = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), dtype=np.bool_
    )
    shared = shingles_of(*shingles(texts, paragraphs))
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
    shared = shingles_of(found, rows)
    flags = np.array([True, False, False, True, False])
    assert shared.shared_with(flags).tolist() == [True, True, False, True, True]
    assert np.bincount(rows, minlength=5).tolist() == [2, 4, 0, 1, 1]


@settings(max_examples=100)
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
    assert all(shared in expected[row] for row, shared in zip(rows.tolist(), words, strict=True))


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


@settings(max_examples=50)
@given(st.lists(DOCUMENT, min_size=2, max_size=8), st.integers(1, 7))
def test_leaders_depend_on_no_later_document(documents: list[list[list[str]]], cut: int) -> None:
    def leaders(some: list[list[list[str]]]) -> list[int]:
        texts, paragraphs, owners, _ = numbered(some)
        shared = shingles_of(*shingles(texts, paragraphs))
        return splits.leaders(shared.ties(owners, len(some), 2)).tolist()

    assert leaders(documents)[:cut] == leaders(documents[:cut])


# Like texts are found, all of them and no others, against the literal definition.

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
@settings(max_examples=150)
def test_rows_like_a_flagged_one_are_literal(texts: list[list[int]], data: st.DataObject) -> None:
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
def test_near_copies_of_any_size_are_found(tmp_path: Path, size: int) -> None:
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
