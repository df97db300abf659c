"""Shingles, by which shared text is found.

The shingles of a text are hashes of its normalised word 8-grams, which may cross sentences but not
paragraphs. A sentence of fewer words also has one shingle of all its words.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids

Places: TypeAlias = npt.NDArray[np.int64]

# The hash of an n-gram is a polynomial of its words' hashes in this base, modulo 2^64. An odd base
# has an inverse, which `overlap` needs to remove a word.
BASE = 0x9E3779B97F4A7C15
_NO_WORD = r"[^\p{L}\p{M}\p{N}]+"
_UNSPACED = (
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}]{1,2}"
    r"|[\p{Thai}\p{Lao}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}]{1,4})"
)


def spaced(lower: pa.Array) -> pa.Array:
    """The words of lower-case texts (letters, marks and digits), separated by one space.

    In scripts without spaces, a word is two letters of Chinese or Japanese, or four signs of Thai,
    Lao, Tibetan, Burmese or Khmer.
    """
    words = pc.replace_substring_regex(lower, _NO_WORD, " ")
    if not pc.all(pc.string_is_ascii(words)).as_py():
        apart = pc.replace_substring_regex(words, _UNSPACED, r" \1 ")
        words = pc.replace_substring_regex(apart, " +", " ")
    return pc.utf8_trim_whitespace(words)


def word_hashes(texts: pa.Array) -> tuple[Ids, Places]:
    """Hashes of all words of texts from `spaced`, (words,), and numbers of words, (rows,)."""
    lists = pc.utf8_split_whitespace(texts)
    flat = pc.list_flatten(lists)
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    # Arrow splits a text without words into one empty word.
    counts[pc.equal(texts, "").to_numpy(zero_copy_only=False)] = 0
    coded = flat.filter(pc.not_equal(flat, "")).dictionary_encode()
    distinct = seeding.text_ids(coded.dictionary.to_pylist())
    return distinct[coded.indices.to_numpy()] if len(distinct) else np.empty(0, np.uint64), counts


def powers(count: int) -> Ids:
    """The first powers of `BASE`, from 0 on. Shape (max(count, 1),)."""
    factors = np.full(max(count, 1), BASE, dtype=np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)


def grams(hashes: Ids, owners: npt.NDArray[np.integer], order: int) -> tuple[Ids, Places]:
    """Hashes of the n-grams of `order` words of the same owner, and indices of their first words.

    hashes, owners: (words,); the words of an owner are adjacent.
    """
    count = max(len(hashes) - order + 1, 0)
    total = np.zeros(count, dtype=np.uint64)
    for place, power in enumerate(powers(order)):
        total += hashes[place : place + count] * power
    first = np.flatnonzero(owners[:count] == owners[order - 1 :][:count])
    return seeding.mix(total[first]), first


Index: TypeAlias = npt.NDArray[np.int32]

GRAM = 8


def normalised(texts: pa.Array) -> pa.Array:
    """The words of the texts (letters, marks and digits) in lower case, separated by one space."""
    return spaced(pc.utf8_lower(texts))


def shingles(texts: Sequence[str] | pa.Array, paragraphs: Index) -> tuple[Ids, Index]:
    """Shingles of texts and the rows in which they begin, sorted by row.

    Args:
        texts: (rows,), sentences in order.
        paragraphs: (rows,), a number per row; adjacent rows with equal numbers are one paragraph.
    """
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    return shingles_of_words(*word_hashes(normalised(column)), paragraphs)


def shingles_of_words(
    hashes: Ids, counts: npt.NDArray[np.int64], paragraphs: Index
) -> tuple[Ids, Index]:
    """`shingles` from the results of `word_hashes`."""
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    # Equal numbers that are not adjacent (a, b, a) are two paragraphs.
    runs = np.cumsum(np.diff(paragraphs, prepend=paragraphs[:1]) != 0)
    long_shingles, first = grams(hashes, runs[rows], GRAM)
    short_shingles, short_rows = _short_texts(hashes, rows, counts)
    hashed = np.concatenate([long_shingles, short_shingles])
    where = np.concatenate([rows[first], short_rows])
    order = np.argsort(where, kind="stable")
    return hashed[order], where[order]


def _short_texts(hashes: Ids, rows: Index, counts: npt.NDArray[np.int64]) -> tuple[Ids, Index]:
    short = np.flatnonzero((counts > 0) & (counts < GRAM)).astype(np.int32)
    if not len(short):
        return np.empty(0, np.uint64), short
    starts = np.cumsum(counts) - counts
    place = np.arange(len(rows)) - starts[rows]
    chosen = (counts[rows] > 0) & (counts[rows] < GRAM)
    parts = hashes[chosen] * powers(GRAM)[place[chosen]]
    ends = np.cumsum(counts[short])
    sums = np.add.reduceat(parts, ends - counts[short])
    return seeding.mix(sums + counts[short].astype(np.uint64)), short


def shared_words(texts: pa.Array, others: Ids) -> tuple[Index, list[str]]:
    """Rows of texts that share a shingle with `others`, and the words of their first shared
    shingle.

    others: sorted shingles.
    """
    hashed, rows = shingles(texts, np.arange(len(texts), dtype=np.int32))
    if not len(others) or not len(hashed):
        return np.empty(0, np.int32), []
    places = np.searchsorted(others, hashed).clip(max=len(others) - 1)
    hits = np.flatnonzero(others[places] == hashed)
    hit_rows, first = np.unique(rows[hits], return_index=True)
    # The n-th shingle of a text begins at its n-th word.
    starts = hits[first] - np.searchsorted(rows, hit_rows)
    words = normalised(texts.take(pa.array(hit_rows))).to_pylist()
    return hit_rows, [
        " ".join(text.split()[start : start + GRAM])
        for text, start in zip(words, starts.tolist(), strict=True)
    ]
