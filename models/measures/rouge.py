"""ROUGE-1, -2 and -L (Lin 2004) as F1 of one text against one reference.

Written here, since `rouge-score` is not among our dependencies. The words are runs of
letters and digits in lower case, without stemming, as in that library by default, but of any
script.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


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


def _overlap(text: Sequence[str], reference: Sequence[str], n: int) -> float:
    said, wanted = _grams(text, n), _grams(reference, n)
    return _f1((said & wanted).total(), said.total(), wanted.total())


def _grams(text: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(text[start:] for start in range(n)), strict=False))


def _f1(shared: int, said: int, wanted: int) -> float:
    return 2 * shared / (said + wanted) if said and wanted else 0.0
