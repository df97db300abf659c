"""A text cut in two near its middle, where a reader would pause."""

from collections.abc import Sequence
from itertools import accumulate

LEAST = 4  # words of a half
_PAUSES = (",", ";", ":", "–", "—", "--", "…", "...", ")")


def halves(sentences: Sequence[str], least_words: int) -> tuple[str, str] | None:
    """Both halves of a text given as its folded sentences, or None if it is too short for that.

    Several sentences are cut between two of them, one sentence of at least `least_words` words
    behind a comma or the like in its middle third, else between two words; always where the two
    sides differ least in words. A half has at least four words.
    """
    if len(sentences) > 1:
        before = list(accumulate(map(_words, sentences)))
        place = min(range(1, len(before)), key=lambda cut: abs(2 * before[cut - 1] - before[-1]))
        both = " ".join(sentences[:place]), " ".join(sentences[place:])
        if min(map(_words, both)) >= LEAST:
            return both
    words = " ".join(sentences).split(" ")
    if len(words) < max(least_words, 2 * LEAST):
        return None
    middle = len(words) / 2
    third = range(-(-len(words) // 3), 2 * len(words) // 3 + 1)
    pauses = [cut for cut in third if words[cut - 1].endswith(_PAUSES)]
    place = min(pauses or third, key=lambda cut: abs(cut - middle))
    return " ".join(words[:place]), " ".join(words[place:])


def _words(text: str) -> int:
    return text.count(" ") + 1
