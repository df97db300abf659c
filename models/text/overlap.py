"""Finds training texts that repeat an evaluation sentence, by hashes of words.

Three levels, from the strongest to the weakest:

- *exact*: the same letters and digits in the same order, ignoring case, punctuation, white space
  and tokenisation.
- *near*: the same words except one that is replaced, missing or added.
- *ngram*: one training text holds at least a given share of the sentence's word n-grams.

Batches of training texts, as columns, are compared with an index of the evaluation sentences. Pairs
are looked up by a sentence's rarest n-grams only, since frequent ones would give too many pairs
(prefix filtering). No pair is missed: a text with the given share contains at least one of any
(all − share · all + 1) n-grams of the sentence.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.runs import distinct, pieces, ranges
from tercet.models.seeding import Ids
from tercet.models.text import shingles
from tercet.models.text.shingles import Places, powers, spaced, word_hashes

Shares: TypeAlias = npt.NDArray[np.float64]
Vectors: TypeAlias = npt.NDArray[np.float32]

# Clitics split off by a tokenizer: "do n't", "the man 's".
_CUT_OFF = r"\s+(n?)['’](t|s|re|ve|ll|d|m)\b"
_APOSTROPHE = r"['’]"
_INVERSE = pow(shingles.BASE, -1, 1 << 64)
_MASK = np.uint64(0xD6E8FEB86659FD93)
_DROP = np.uint64(0xA0761D6478BD642F)

# Pairs compared at once, which bounds memory.
_PAIRS = 1 << 20
# Vectors per side of a product.
BLOCK = 4096


@dataclass(frozen=True)
class Words:
    """The words of a column of texts, as hashes.

    hashes: (words,), row after row. starts: (rows + 1,), the index of each row's first word, and
        the number of words. letters: (rows,), id of the letters and digits of each row.
    """

    hashes: Ids
    starts: Places
    letters: Ids

    @property
    def counts(self) -> Places:
        """Number of words of each row."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.letters)


@dataclass(frozen=True)
class Matches:
    """Pairs of a training text (row) and an evaluation sentence, by number, with scores."""

    rows: Places
    sentences: Places
    scores: Shares

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, mask: npt.NDArray[np.bool_]) -> "Matches":
        """The matches for which the mask is true."""
        return Matches(self.rows[mask], self.sentences[mask], self.scores[mask])


def normalised(texts: pa.Array) -> pa.Array:
    """The words of the texts in lower case, separated by one space; clitics are joined."""
    lower = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC"))
    joined = pc.replace_substring_regex(lower, _CUT_OFF, r"\1\2")
    whole = pc.replace_substring_regex(joined, _APOSTROPHE, "")
    return spaced(whole)


def words_of(texts: pa.Array) -> Words:
    """The words of a column of texts."""
    plain = normalised(texts)
    hashes, counts = word_hashes(plain)
    letters = seeding.text_ids(pc.replace_substring(plain, " ", "").to_pylist())
    return Words(hashes, np.concatenate([[0], np.cumsum(counts)]), letters)


def grams(words: Words, order: int) -> tuple[Ids, Places]:
    """The distinct n-grams of each text and their rows, sorted by row, then n-gram."""
    row = np.repeat(np.arange(len(words)), words.counts)
    hashes, first = shingles.grams(words.hashes, row, order)
    rows = row[first]
    once = distinct(rows, hashes)
    return hashes[once], rows[once]


def variants(words: Words) -> tuple[Ids, Ids, Places]:
    """For every word, hashes of its text without the word.

    Returns: hashes with a gap (equal for two texts that differ in that word), hashes without a gap
    (equal to `whole` of a text that lacks the word), and their rows, (words,) each.
    """
    counts = words.counts
    row = np.repeat(np.arange(len(words)), counts)
    place = np.arange(len(words.hashes)) - words.starts[row]
    parts = words.hashes * powers(int(counts.max(initial=0)))[place]
    before = np.concatenate([[np.uint64(0)], np.cumsum(parts, dtype=np.uint64)])
    whole = _sums(words, before)[row]
    ahead = before[:-1] - before[words.starts[:-1]][row]
    behind = whole - ahead - parts
    size = counts[row].astype(np.uint64)
    masked = seeding.mix(seeding.mix(whole - parts + _MASK * (place.astype(np.uint64) + 1)) ^ size)
    dropped = seeding.mix(seeding.mix(ahead + behind * np.uint64(_INVERSE) + _DROP) ^ (size - 1))
    return masked, dropped, row


def whole(words: Words) -> Ids:
    """The hash of all words of each text, comparable to the hashes without a gap of `variants`."""
    place = np.arange(len(words.hashes)) - np.repeat(words.starts[:-1], words.counts)
    parts = words.hashes * powers(int(words.counts.max(initial=0)))[place]
    before = np.concatenate([[np.uint64(0)], np.cumsum(parts, dtype=np.uint64)])
    size = words.counts.astype(np.uint64)
    return seeding.mix(seeding.mix(_sums(words, before) + _DROP) ^ size)


def _sums(words: Words, before: Ids) -> Ids:
    return before[words.starts[1:]] - before[words.starts[:-1]]


class Table:
    """From hashes to the sentences that have them. A bit array of the upper bits excludes most
    other hashes."""

    def __init__(self, hashes: Ids, sentences: Places) -> None:
        order = np.lexsort((sentences, hashes))
        self.hashes, self.sentences = hashes[order], sentences[order]
        bits = max(16, len(hashes).bit_length() + 4)
        self._shift = np.uint64(64 - bits)
        self._present = np.zeros(1 << bits, dtype=np.bool_)
        self._present[self.hashes >> self._shift] = True

    def find(self, hashes: Ids) -> tuple[Places, Places, Places]:
        """The indices of hashes in the table, and the bounds of their runs in `sentences`."""
        maybe = np.flatnonzero(self._present[hashes >> self._shift])
        low = np.searchsorted(self.hashes, hashes[maybe], side="left")
        high = np.searchsorted(self.hashes, hashes[maybe], side="right")
        held = high > low
        return maybe[held], low[held], high[held]

    def pairs(self, hashes: Ids, rows: Places) -> Iterator[tuple[Places, Places]]:
        """Pairs of a row and a sentence that share a hash, in pieces of bounded size."""
        indices, low, high = self.find(hashes)
        sizes = high - low
        for some in pieces(sizes, _PAIRS):
            sentences = self.sentences[ranges(low[some], sizes[some])]
            owners = np.repeat(rows[indices[some]], sizes[some])
            once = distinct(owners, sentences)
            yield owners[once], sentences[once]


class Index:
    """An index of the evaluation sentences.

    texts: the sentences. order: words of an n-gram. min_words: shorter sentences are only matched
    exactly, since their parts are too common. least: the lowest share to report.
    """

    def __init__(self, texts: pa.Array, order: int, min_words: int, least: float) -> None:
        self.order, self.least = order, least
        words = words_of(texts)
        everything = np.arange(len(words))
        lettered = words.counts > 0
        self._exact = Table(words.letters[lettered], everything[lettered])
        masked, dropped, row = variants(words)
        long = words.counts[row] >= min_words
        self._masked = Table(masked[long], row[long])
        self._dropped = Table(dropped[long], row[long])
        enough = words.counts >= min_words
        self.long = enough
        self._whole = Table(whole(words)[enough], everything[enough])
        self._words = words.counts
        hashes, rows = grams(words, order)
        indexed = enough[rows]
        # An n-gram's number is its index among the distinct n-grams.
        self._vocabulary, self._numbers, frequencies = np.unique(
            hashes[indexed], return_inverse=True, return_counts=True
        )
        self._number_of = Table(self._vocabulary, np.arange(len(self._vocabulary)))
        self._totals = np.bincount(rows[indexed], minlength=len(words))
        self._starts = np.concatenate([[0], np.cumsum(self._totals)])
        self._rarest = self._prefixes(rows[indexed], frequencies)

    def _prefixes(self, rows: Places, frequencies: Places) -> Table:
        """The rarest n-grams of each sentence: any text with the share contains one of them."""
        order = np.lexsort((frequencies[self._numbers], rows))
        rank = np.arange(len(order)) - self._starts[rows[order]]
        total = self._totals[rows[order]]
        chosen = order[rank < total - _needed(total, self.least) + 1]
        return Table(self._vocabulary[self._numbers[chosen]], rows[chosen])

    def exact(self, words: Words) -> Matches:
        """Texts with the same letters and digits; score 1."""
        rows = np.flatnonzero(words.counts > 0)
        return _matches(self._exact.pairs(words.letters[rows], rows))

    def near(self, words: Words) -> Matches:
        """Texts that differ in one word; score: the share of equal words in the longer text."""
        masked, dropped, row = variants(words)
        everything = np.arange(len(words))
        matches = _matches(
            [
                *self._masked.pairs(masked, row),
                # The sentence has one more word, or the text has.
                *self._dropped.pairs(whole(words), everything),
                *self._whole.pairs(dropped, row),
            ]
        )
        longer = np.maximum(words.counts[matches.rows], self._words[matches.sentences])
        # Two texts of one word each differ in their only word, so they share none.
        return replace(matches, scores=1 - 1 / np.maximum(longer, 1)).filter(longer > 1)

    def shares(self, words: Words) -> Matches:
        """Texts that contain at least `least` of a sentence's n-grams; score: the share."""
        hashes, rows = grams(words, self.order)
        indexed, numbers, _ = self._number_of.find(hashes)
        hashes, rows = hashes[indexed], rows[indexed]
        starts = np.searchsorted(rows, np.arange(len(words) + 1))
        # Sorted, since rows are sorted, and numbers within a row.
        held = rows * len(self._vocabulary) + numbers
        parts = []
        for at, sentences in self._rarest.pairs(hashes, rows):
            # Skip texts with fewer n-grams in the index than the share needs.
            likely = np.diff(starts)[at] >= _needed(self._totals[sentences], self.least)
            at, sentences = at[likely], sentences[likely]
            share = self._count(at, sentences, held) / self._totals[sentences]
            enough = share >= self.least
            parts.append((at[enough], sentences[enough], share[enough]))
        return _matches(parts)

    def _count(self, rows: Places, sentences: Places, held: Places) -> Places:
        """For each pair, the number of the sentence's n-grams in the row.

        held: sorted keys (row, n-gram number) of all rows."""
        counts = np.zeros(len(rows), dtype=np.int64)
        totals = self._totals[sentences]
        for some in pieces(totals, _PAIRS):
            sizes = totals[some]
            numbers = self._numbers[ranges(self._starts[sentences[some]], sizes)]
            keys = np.repeat(rows[some], sizes) * len(self._vocabulary) + numbers
            places = np.searchsorted(held, keys).clip(max=len(held) - 1)
            same = (held[places] == keys).astype(np.int64)
            counts[some] = np.add.reduceat(same, np.cumsum(sizes) - sizes)
        return counts


def _needed(totals: Places, least: float) -> Places:
    """The smallest number of each sentence's n-grams that reaches the share."""
    needed: Places = np.maximum(np.ceil(totals * least - 1e-9), 1).astype(np.int64)
    return needed


def _matches(batches: Iterable[tuple[Places, Places, *tuple[Shares, ...]]]) -> Matches:
    """The distinct pairs of all pieces, sorted, with their scores (1 by default)."""
    scored = [
        (piece[0], piece[1], piece[2] if len(piece) > 2 else np.ones(len(piece[0])))
        for piece in batches
    ]
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    rows, sentences, scores = (np.concatenate(each) for each in zip(none, *scored, strict=True))
    once = distinct(rows, sentences)
    return Matches(rows[once], sentences[once], scores[once])


def near_vectors(texts: Vectors, sentences: Vectors, least: float, block: int = BLOCK) -> Matches:
    """Pairs with a cosine of at least `least`, computed in blocks.

    texts: (texts, dimension), and sentences: (sentences, dimension), unit vectors.
    """
    parts = []
    for first in range(0, len(texts), block):
        for start in range(0, len(sentences), block):
            cosines = texts[first : first + block] @ sentences[start : start + block].T
            rows, columns = np.nonzero(cosines >= least)
            scores = cosines[rows, columns].astype(np.float64)
            parts.append((rows + first, columns + start, scores))
    return _matches(parts)
