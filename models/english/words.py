"""English words: letter case, closed word classes, articles, narrow kinds of nouns."""

import re
from pathlib import Path

DATA_FILES = ("words.tsv", "kinds.tsv")

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def word_set(text: str) -> frozenset[str]:
    """The set of words of a text, split at white space."""
    return frozenset(text.split())


def word_lists(module: str) -> dict[str, frozenset[str]]:
    """The word lists in the TSV beside a module, with the module's name. module: the module's file.

    A line has a list's name, a tab, and words; "#" begins a comment. The module must name the TSV
    in its `DATA_FILES`.
    """
    lists: dict[str, frozenset[str]] = {}
    for line in Path(module).with_suffix(".tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, words = line.split("\t")
            lists[name] = lists.get(name, frozenset()) | word_set(words)
    return lists


def in_shape_of(old: str, new: str) -> str:
    """`new` in the letter case of `old`: upper case, title case, capitalised, or unchanged."""
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
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


_LISTS = word_lists(__file__)
_CLOSED = "determiners pronouns prepositions conjunctions auxiliaries adverbs numbers"
STOP_WORDS = frozenset(word for name in _CLOSED.split() for word in _LISTS[name])
NUMBER_WORDS = _LISTS["numbers"]
PREPOSITIONS = _LISTS["prepositions"]
WEAK_WORDS = _LISTS["weak"]
BEFORE_VERBS = _LISTS["before_verbs"]
NAME_LINKS = _LISTS["name_links"]
TITLES = _LISTS["titles"]
AFTER_OF = _LISTS["after_of"]
PLAIN_VERBS = _LISTS["plain_verbs"]
DOCUMENTATION_VERBS = PLAIN_VERBS | _LISTS["noun_verbs"]
OPENING_VERBS = DOCUMENTATION_VERBS | _LISTS["more_openers"]
SAME_IN_BOTH = _LISTS["same_in_both"]
IRREGULAR_VERBS = _LISTS["irregular_verbs"]
MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"

_ARTICLE = re.compile(r"\b([Aa])(n?)(\s+[\"'“‘(`]?)$")
# Words that begin with a vowel letter but a consonant sound, and the reverse.
_AS_CONSONANT = re.compile(
    r"eu|ewe|once|one(?![a-z])|u(?:ni(?!m|n|dent|ss)|s[aeiu]|t[aeio]|k|bi|r[aei])"
)
_SILENT_H = re.compile(r"h(?:our|onest|ono[u]?r|eir)")
_LETTERS_WITH_VOWEL = frozenset("AEFHILMNORSX")
_NUMBERS_WITH_VOWEL = re.compile(r"8|1[18](?:\d{2,3})?(?!\d)|1[18],\d")


def wants_an(text: str) -> bool:
    """Whether the indefinite article before this text is "an", from its first sound."""
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


def replaced(text: str, start: int, end: int, new: str, english: bool = True) -> str:
    """The text with `text[start:end]` replaced, and an English article before it corrected."""
    before = text[:start]
    if english and new and before[-1:] in " \t(`\"'“‘":
        article = _ARTICLE.search(before)
        # A single capital A may be a name ("vitamin A"), unless a sentence begins with it.
        if article and (article.group(1) == "a" or article.start() == 0):
            n = "n" if wants_an(new) else ""
            before = before[: article.start()] + article.group(1) + n + article.group(3)
    return before + new + text[end:]


_BY_LEMMA: dict[str, set[str]] = {}
for _line in Path(__file__).with_name("kinds.tsv").read_text("utf-8").splitlines():
    for _noun in () if _line.startswith("#") else _line.split():
        _BY_LEMMA.setdefault(_noun, set()).update(_line.split())


def of_one_kind(one: str, other: str) -> bool:
    """Whether two different nouns, in dictionary form, are of the same narrow kind."""
    return one != other and other in _BY_LEMMA.get(one, ())


def has_kind(noun: str) -> bool:
    """Whether a noun has a narrow kind."""
    return noun in _BY_LEMMA
