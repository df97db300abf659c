"""Splits a text into two halves at a pause near its middle."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from tercet.models.text.words import UNSPACED, count_words, is_unspaced

LEAST = 4  # minimum of words in a half
_PAUSES = (",", ";", ":", "–", "—", "--", "…", "...", ")")
_UNSPACED_PAUSES = (*_PAUSES, *"，、；：。！？」』）")
# Letters of scripts without spaces, words of scripts with spaces, and single marks.
_PIECES = re.compile(rf"{UNSPACED.pattern}|[^\W_]+|[\W_]", re.UNICODE)


def halves(sentences: Sequence[str], least_words: int) -> tuple[str, str] | None:
    """Both halves of a text; None if it is too short.

    Several sentences are cut between two of them. A single sentence of at least `least_words` words
    is cut after a punctuation mark in its middle third, else between two words (two letters in a
    script without spaces). The cut nearest to the middle is used. A half has at least four words.

    sentences: the sentences of the text, after `fold`.
    """
    if len(sentences) > 1:
        before = list(accumulate(map(count_words, sentences)))
        place = min(range(1, len(before)), key=lambda cut: abs(2 * before[cut - 1] - before[-1]))
        both = " ".join(sentences[:place]), " ".join(sentences[place:])
        if min(map(count_words, both)) >= LEAST:
            return both
    text = " ".join(sentences)
    if is_unspaced(text):
        return _unspaced_halves(text, least_words)
    words = text.split(" ")
    if len(words) < max(least_words, 2 * LEAST):
        return None
    middle = len(words) / 2
    third = range(-(-len(words) // 3), 2 * len(words) // 3 + 1)
    pauses = [cut for cut in third if words[cut - 1].endswith(_PAUSES)]
    place = min(pauses or third, key=lambda cut: abs(cut - middle))
    return " ".join(words[:place]), " ".join(words[place:])


def _unspaced_halves(text: str, least_words: int) -> tuple[str, str] | None:
    if count_words(text) < max(least_words, 2 * LEAST):
        return None
    pieces = _PIECES.findall(text)
    ends = list(accumulate(map(len, pieces)))[:-1]
    # No cut before a vowel or tone mark, punctuation or a space.
    cuts = [end for end in ends if unicodedata.category(text[end])[0] not in "MPZ"]
    third = [cut for cut in cuts if len(text) <= 3 * cut <= 2 * len(text)]
    pauses = {cut for cut in third if text[:cut].rstrip().endswith(_UNSPACED_PAUSES)}
    for cut in sorted(third, key=lambda cut: (cut not in pauses, abs(2 * cut - len(text)))):
        both = text[:cut].strip(), text[cut:].strip()
        if min(map(count_words, both)) >= LEAST:
            return both
    return None
