"""ROUGE-1, -2 and -L (Lin 2004) as F1 of one text against one reference.

Words are runs of letters and digits in lower case, without stemming, as by default in the package
`rouge-score`, but in any script. `character_rouge` follows the package `rouge`, on the scale of
VAEGPT-Sim's tables. Neither package is a dependency.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_WORD = re.compile(r"[^\W_]+")


class Rouge(NamedTuple):
    """Three F1 scores, each in [0, 1]."""

    rouge1: float
    rouge2: float
    rouge_l: float

    @property
    def average(self) -> float:
        """The mean of the three: Avg-ROUGE of VAEGPT-Sim."""
        return sum(self) / 3


def words(text: str, cased: bool = False) -> list[str]:
    """The words of a text, in lower case unless `cased`."""
    return _WORD.findall(text if cased else text.lower())


def rouge(text: Sequence[str], reference: Sequence[str]) -> Rouge:
    """The scores of a text's words against the words of the reference.

    A score is 0 if one side has no n-gram: two equal texts of one word have a ROUGE-2 of 0, as in
    the library.
    """
    return Rouge(
        _overlap(text, reference, 1),
        _overlap(text, reference, 2),
        _f1(longest_common(text, reference), len(text), len(reference)),
    )


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        above = 0
        for place, other in enumerate(second, start=1):
            length = above + 1 if word == other else max(row[place], row[place - 1])
            above, row[place] = row[place], length
    return row[-1]


def character_rouge(text: str, reference: str) -> Rouge:
    """ROUGE over characters, counted as in the package `rouge` 1.0.1.

    An n-gram counts once however often it occurs in a text. ROUGE-L also counts distinct
    characters: of the longest common subsequence of each pair of sentences. White space is ignored,
    and a full stop only ends a sentence. VAEGPT-Sim names that package; its use on characters is
    inferred from Table 2, where a copy has 79.28.
    """
    sentences, reference_sentences = _sentences(text), _sentences(reference)
    common: set[str] = set()
    for one in reference_sentences:
        for other in sentences:
            common |= _common_characters(one, other)
    ours, theirs = "".join(sentences), "".join(reference_sentences)
    return Rouge(
        _distinct_overlap(ours, theirs, 1),
        _distinct_overlap(ours, theirs, 2),
        _f1(len(common), len(set(ours)), len(set(theirs))),
    )


def _distinct_overlap(text: str, reference: str, n: int) -> float:
    grams, reference_grams = set(_grams(text, n)), set(_grams(reference, n))
    return _f1(len(grams & reference_grams), len(grams), len(reference_grams))


def _sentences(text: str) -> list[str]:
    """The non-empty sentences, without white space."""
    return [sentence for part in text.split(".") if (sentence := "".join(part.split()))]


def _common_characters(reference: str, text: str) -> set[str]:
    """The characters of the longest common subsequence that the package `rouge` picks.

    Each row of the table is the running maximum over the row above and the matches.
    """
    other = np.array(list(text))
    table = np.zeros((len(reference) + 1, len(text) + 1), dtype=np.int32)
    for place, character in enumerate(reference):
        row = np.maximum(table[place, 1:], table[place, :-1] + (other == character))
        table[place + 1, 1:] = np.maximum.accumulate(row)
    characters: set[str] = set()
    i, j = len(reference), len(text)
    while i and j:
        if reference[i - 1] == text[j - 1]:
            characters.add(reference[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1, j] > table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return characters


def _overlap(text: Sequence[str], reference: Sequence[str], n: int) -> float:
    grams, reference_grams = _grams(text, n), _grams(reference, n)
    return _f1((grams & reference_grams).total(), grams.total(), reference_grams.total())


def _grams(text: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(text[start:] for start in range(n)), strict=False))


def _f1(shared: int, size: int, reference_size: int) -> float:
    return 2 * shared / (size + reference_size) if size and reference_size else 0.0
