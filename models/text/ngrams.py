"""Hashes of the words of texts and of their n-grams, column by column."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids

Places: TypeAlias = npt.NDArray[np.int64]

# An n-gram is a polynomial of its words' hashes in this base, modulo 2^64. Being odd, it has an
# inverse, by which a word can be taken out of the sum again.
BASE = 0x9E3779B97F4A7C15
_NO_WORD = r"[^\p{L}\p{M}\p{N}]+"
_UNSPACED = (
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}]{1,2}"
    r"|[\p{Thai}\p{Lao}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}]{1,4})"
)


def spaced(lower: pa.Array) -> pa.Array:
    """The words of lower-case texts, one space apart: letters, their accents and digits.

    In scripts without spaces two letters of Chinese or Japanese, or four signs of Thai, Lao,
    Tibetan, Burmese or Khmer, are a word, from the beginning of each stretch of them on.
    """
    words = pc.replace_substring_regex(lower, _NO_WORD, " ")
    if not pc.all(pc.string_is_ascii(words)).as_py():
        apart = pc.replace_substring_regex(words, _UNSPACED, r" \1 ")
        words = pc.replace_substring_regex(apart, " +", " ")
    return pc.utf8_trim_whitespace(words)


def word_hashes(texts: pa.Array) -> tuple[Ids, Places]:
    """Hashes of all words of spaced texts, row after row, and how many each text has.

    Returns: hashes, shape (words,); counts, shape (rows,).
    """
    lists = pc.utf8_split_whitespace(texts)
    flat = pc.list_flatten(lists)
    counts = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    # A text without words is split into one empty word.
    counts[pc.equal(texts, "").to_numpy(zero_copy_only=False)] = 0
    coded = flat.filter(pc.not_equal(flat, "")).dictionary_encode()
    distinct = seeding.text_ids(coded.dictionary.to_pylist())
    return distinct[coded.indices.to_numpy()] if len(distinct) else np.empty(0, np.uint64), counts


def powers(count: int) -> Ids:
    """The first powers of `BASE`, at least one. Shape (max(count, 1),)."""
    found = np.full(max(count, 1), BASE, dtype=np.uint64)
    found[0] = 1
    return np.multiply.accumulate(found)


def grams(hashes: Ids, owners: npt.NDArray[np.integer], order: int) -> tuple[Ids, Places]:
    """The n-grams of `order` words that all have one owner, with the place of their first word.

    hashes, owners: of each word; an owner's words stand together. Shape (words,).
    """
    count = max(len(hashes) - order + 1, 0)
    total = np.zeros(count, dtype=np.uint64)
    for place, power in enumerate(powers(order)):
        total += hashes[place : place + count] * power
    first = np.flatnonzero(owners[:count] == owners[order - 1 :][:count])
    return seeding.mix(total[first]), first
