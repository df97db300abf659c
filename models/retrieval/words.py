"""The words of a text in any script, as a search by words compares them."""

import unicodedata

import regex

from tercet.models.text.words import UNSPACED_LETTERS

# Hangul too: Korean has spaces, but writes its particles onto the words.
_PAIRED = UNSPACED_LETTERS + r"\uac00-\ud7a3"
# Unlike `re`, `regex` counts combining marks, vowels of Hindi among them, as parts of a word.
_WORDS = regex.compile(rf"(?V1)[{_PAIRED}]+|[\w--[{_PAIRED}]]{{2,}}")
_IS_PAIRED = regex.compile(f"[{_PAIRED}]").match


def split(text: str) -> list[str]:
    """Runs of letters, marks and digits, two at least, in lower case and Unicode's form NFKC.

    Where a script has no spaces (Chinese, Japanese, Thai) and in Korean, each two neighbouring
    letters are a word, as in Lucene's CJKAnalyzer, and so is a letter that stands alone.
    """
    words: list[str] = _WORDS.findall(unicodedata.normalize("NFKC", text).lower())
    if text.isascii():
        return words
    return [piece for word in words for piece in (_pairs(word) if _IS_PAIRED(word) else [word])]


def _pairs(letters: str) -> list[str]:
    return [letters[i : i + 2] for i in range(max(len(letters) - 1, 1))]
