"""English word forms that a changed word must keep: articles, number, letter case, verb endings."""

import re

from tercet.models.english.openers import with_s


def word_set(text: str) -> frozenset[str]:
    """The words of a text, parted by white space."""
    return frozenset(text.split())


WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_ARTICLE = re.compile(r"\b([Aa])(n?)(\s+[\"'“‘(`]?)$")
# Spelt with a vowel and said with a consonant, and the reverse.
_AS_CONSONANT = re.compile(
    r"eu|ewe|once|one(?![a-z])|u(?:ni(?!m|n|dent|ss)|s[aeiu]|t[aeio]|k|bi|r[aei])"
)
_SILENT_H = re.compile(r"h(?:our|onest|ono[u]?r|eir)")
_LETTERS_WITH_VOWEL = frozenset("AEFHILMNORSX")
_NUMBERS_WITH_VOWEL = re.compile(r"8|1[18](?:\d{2,3})?(?!\d)|1[18],\d")

_IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "person": "people",
    "foot": "feet",
    "tooth": "teeth",
    "goose": "geese",
    "mouse": "mice",
    "ox": "oxen",
    "index": "indices",
    "matrix": "matrices",
    "vertex": "vertices",
    "axis": "axes",
    "analysis": "analyses",
    "basis": "bases",
    "crisis": "crises",
    "hypothesis": "hypotheses",
    "criterion": "criteria",
    "phenomenon": "phenomena",
    "leaf": "leaves",
    "knife": "knives",
    "wife": "wives",
    "life": "lives",
    "half": "halves",
    "shelf": "shelves",
    "wolf": "wolves",
    "thief": "thieves",
    "hero": "heroes",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "echo": "echoes",
    "bus": "buses",
    "gas": "gases",
    "lens": "lenses",
    "status": "statuses",
    "virus": "viruses",
    "campus": "campuses",
}
_INVARIANT = word_set("sheep fish deer series species aircraft data news people police")
_SINGULARS = {plural: singular for singular, plural in _IRREGULAR_PLURALS.items()}


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
        # "NASA" is said as a word, "NSF" by its letters.
        return first[0] in _LETTERS_WITH_VOWEL and (first[0] in "AEIO" or first[1] not in "AEIOU")
    lower = first.lower()
    if lower[0] == "h":
        return _SILENT_H.match(lower) is not None
    return lower[0] in "aeiou" and _AS_CONSONANT.match(lower) is None


def replaced(text: str, start: int, end: int, new: str) -> str:
    """The text with `text[start:end]` replaced, an article right before it put right."""
    before = text[:start]
    if new and before[-1:] in " \t(`\"'“‘":
        article = _ARTICLE.search(before)
        # A single capital A may be a name ("vitamin A"), unless a sentence begins with it.
        if article and (article.group(1) == "a" or article.start() == 0):
            n = "n" if wants_an(new) else ""
            before = before[: article.start()] + article.group(1) + n + article.group(3)
    return before + new + text[end:]


def plural(text: str) -> str:
    """The plural of a noun, or of the last word of a noun phrase."""
    head, space, word = text.rpartition(" ")
    lower = word.lower()
    if lower in _INVARIANT or lower in _SINGULARS or not word:
        return text
    if lower in _IRREGULAR_PLURALS:
        return head + space + in_shape_of(word, _IRREGULAR_PLURALS[lower])
    for suffix in ("woman", "man"):
        if lower.endswith(suffix) and lower not in ("human", "german", "roman", "norman"):
            return head + space + word[: -len(suffix)] + _IRREGULAR_PLURALS[suffix]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        return text
    return head + space + with_s(word)


def is_plural(surface: str, lemma: str | None = None) -> bool:
    """Whether a noun phrase as it stands is in the plural; its lemma, where known, decides."""
    low = surface.casefold()
    if lemma is not None and low != lemma.casefold():
        return low == plural(lemma.casefold())
    if lemma is not None:
        return False
    last = low.rpartition(" ")[2]
    if last in _SINGULARS:
        return True
    return last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 3


def in_shape_of(old: str, new: str) -> str:
    """`new` in the letter case of `old`: all capitals, capitals at the words' heads, a capital at
    the head, or as it is."""
    if not old or not new:
        return new
    if len(old) > 1 and old.isupper():
        return new.upper()
    heads = [word[:1] for word in old.split()]
    if len(heads) > 1 and all(head.isupper() for head in heads):
        return " ".join([word[:1].upper() + word[1:] for word in new.split(" ")])
    if old[0].isupper():
        return new[0].upper() + new[1:]
    return new


def capitalised(text: str) -> str:
    """The text with a capital at its head."""
    return text[:1].upper() + text[1:]
