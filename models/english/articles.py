"""The indefinite article: "a" or "an", by the sound that follows."""

import re

_ARTICLE = re.compile(r"\b([Aa])(n?)(\s+[\"'“‘(`]?)$")
# Written with a vowel but pronounced with a consonant, and the reverse.
_AS_CONSONANT = re.compile(
    r"eu|ewe|once|one(?![a-z])|u(?:ni(?!m|n|dent|ss)|s[aeiu]|t[aeio]|k|bi|r[aei])"
)
_SILENT_H = re.compile(r"h(?:our|onest|ono[u]?r|eir)")
_LETTERS_WITH_VOWEL = frozenset("AEFHILMNORSX")
_NUMBERS_WITH_VOWEL = re.compile(r"8|1[18](?:\d{2,3})?(?!\d)|1[18],\d")


def wants_an(text: str) -> bool:
    """Whether the indefinite article before this text is "an", by its first sound."""
    word = text.lstrip("\"'“‘(`")
    head = re.match(r"\w+", word)
    if head is None:
        return False
    first = head.group()
    if first[0].isdigit():
        return _NUMBERS_WITH_VOWEL.match(word) is not None
    if len(first) == 1:
        return first.upper() in _LETTERS_WITH_VOWEL
    if first.isupper():
        # "NASA" is pronounced as a word, "NSF" letter by letter.
        return first[0] in _LETTERS_WITH_VOWEL and (first[0] in "AEIO" or first[1] not in "AEIOU")
    lower = first.lower()
    if lower[0] == "h":
        return _SILENT_H.match(lower) is not None
    return lower[0] in "aeiou" and _AS_CONSONANT.match(lower) is None


def replaced(text: str, start: int, end: int, new: str) -> str:
    """The text with `text[start:end]` replaced, and the article right before it corrected."""
    before = text[:start]
    if new and before[-1:] in " \t(`\"'“‘":
        article = _ARTICLE.search(before)
        # A single capital A may be a name ("vitamin A"), unless a sentence begins with it.
        if article and (article.group(1) == "a" or article.start() == 0):
            n = "n" if wants_an(new) else ""
            before = before[: article.start()] + article.group(1) + n + article.group(3)
    return before + new + text[end:]
