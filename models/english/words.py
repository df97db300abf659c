"""What a word looks like: its letters, its letter case, its ending -s."""

import re

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_WITH_ES = frozenset(("do", "go", "undo", "redo", "outdo", "overdo", "forgo", "undergo"))


def word_set(text: str) -> frozenset[str]:
    """The words of a text, split at white space."""
    return frozenset(text.split())


def with_s(word: str) -> str:
    """The word with the ending -s, as a plural or a third person has it."""
    lower = word.lower()
    if lower in _WITH_ES or lower.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if lower.endswith("y") and len(lower) > 1 and lower[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def third_person(verb: str) -> str:
    """A verb's third person singular ("apply" to "applies")."""
    return {"have": "has", "be": "is"}.get(verb) or with_s(verb)


def in_shape_of(old: str, new: str) -> str:
    """`new` in the letter case of `old`: all capitals, a capital on each word, a capital on the
    first, or as it is."""
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
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
