"""ROUGE-1, -2 and -L (Lin 2004) as F1 of one text against one reference.

Written here, since neither `rouge-score` nor `rouge` is among our dependencies. The words are runs
of letters and digits in lower case, without stemming, as in `rouge-score` by default, but of any
script. `character_rouge` is the other package's, on the scale of VAEGPT-Sim's tables.
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
    """The scores of a text's words against the reference's.

    Without any n-gram on one side the score is 0; but two texts of the same single word have no
    bigram to share, and count as 0 in ROUGE-2 as in the library.
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
            here = above + 1 if word == other else max(row[place], row[place - 1])
            above, row[place] = row[place], here
    return row[-1]


def character_rouge(text: str, reference: str) -> Rouge:
    """The scores of texts whose words are characters, as the package `rouge` 1.0.1 counts.

    An n-gram counts once however often it stands in a text. ROUGE-L counts distinct characters too:
    those of the longest common subsequences of each two sentences. Blanks are no characters, and a
    full stop only ends a sentence. VAEGPT-Sim names that package; that it was given characters is
    inferred from Table 2, where a copy has 79.28.
    """
    said, wanted = _sentences(text), _sentences(reference)
    common: set[str] = set()
    for one in wanted:
        for other in said:
            common |= _common_characters(one, other)
    ours, theirs = "".join(said), "".join(wanted)
    return Rouge(
        _distinct_overlap(ours, theirs, 1),
        _distinct_overlap(ours, theirs, 2),
        _f1(len(common), len(set(ours)), len(set(theirs))),
    )


def _distinct_overlap(text: str, reference: str, n: int) -> float:
    said, wanted = set(_grams(text, n)), set(_grams(reference, n))
    return _f1(len(said & wanted), len(said), len(wanted))


def _sentences(text: str) -> list[str]:
    """Without blanks; none is empty."""
    return [found for part in text.split(".") if (found := "".join(part.split()))]


def _common_characters(reference: str, text: str) -> set[str]:
    """The characters of one longest common subsequence; of several, the one that the package has.

    Each row of the table is the running maximum of what the row above and a match give.
    """
    other = np.array(list(text))
    table = np.zeros((len(reference) + 1, len(text) + 1), dtype=np.int32)
    for place, character in enumerate(reference):
        row = np.maximum(table[place, 1:], table[place, :-1] + (other == character))
        table[place + 1, 1:] = np.maximum.accumulate(row)
    found: set[str] = set()
    i, j = len(reference), len(text)
    while i and j:
        if reference[i - 1] == text[j - 1]:
            found.add(reference[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1, j] > table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def _overlap(text: Sequence[str], reference: Sequence[str], n: int) -> float:
    said, wanted = _grams(text, n), _grams(reference, n)
    return _f1((said & wanted).total(), said.total(), wanted.total())


def _grams(text: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(text[start:] for start in range(n)), strict=False))


def _f1(shared: int, said: int, wanted: int) -> float:
    return 2 * shared / (said + wanted) if said and wanted else 0.0
