"""Splits text of any script into words for search."""

import unicodedata

import regex

from tercet.models.text.words import UNSPACED_LETTERS

# Hangul too, since Korean joins particles to words.
_PAIRED = UNSPACED_LETTERS + r"\uac00-\ud7a3"
# Unlike `re`, `regex` treats combining marks, such as Hindi vowels, as parts of a word.
_WORDS = regex.compile(rf"(?V1)[{_PAIRED}]+|[\w--[{_PAIRED}]]{{2,}}")
_IS_PAIRED = regex.compile(f"[{_PAIRED}]").match


def split(text: str) -> list[str]:
    """Runs of at least two letters, marks and digits, in lower case and NFKC.

    In scripts without spaces (Chinese, Japanese, Thai) and in Korean, each pair of neighbouring
    letters is a word, as in Lucene's CJKAnalyzer, and so is a single letter.
    """
    words: list[str] = _WORDS.findall(unicodedata.normalize("NFKC", text).lower())
    if text.isascii():
        return words
    return [piece for word in words for piece in (_pairs(word) if _IS_PAIRED(word) else [word])]


def _pairs(letters: str) -> list[str]:
    return [letters[i : i + 2] for i in range(max(len(letters) - 1, 1))]
