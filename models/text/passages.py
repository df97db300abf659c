"""The context of a passage: its title and headings, without numbers and marks."""

import re

_BETWEEN = " > "


def passage_text(context: str, text: str) -> str:
    """The passage with its context, as an encoder reads it."""
    return f"{context}\n{text}" if context else text


def context_of(names: list[str]) -> str:
    """The title and headings above a passage, outermost first, joined to one line."""
    return _BETWEEN.join(names)


def above(context: str) -> list[str]:
    """The inverse of `context_of`."""
    return context.split(_BETWEEN) if context else []


# Section numbers: "8.", "2.3", "F.12.", "Chapter 5.", "3)", and "4" before a capital.
_NUMBER = re.compile(
    r"""(?:(?i:chapter|section|appendix|part)\s+(?:\d+|[A-Z]|[IVXLC]+)(?:\.\d+)*[.:)]?
        |(?:§\s*)?(?:\d+|[A-Z])(?:\.\d+)+[.:)]?
        |(?:§\s*)?\d+[.:)]
        |\d+(?=\s+[A-Z]))\s+(?=.*[^\W\d_])""",
    re.VERBOSE,
)
# Marks at the end of a heading: a pilcrow (also as a link), an anchor, "#", punctuation.
_BEHIND = re.compile(
    r"(?:\s*\[?[¶§🔗\uf0c1]\]?(?:\([^)]*\))?|\s*\{:?\s*#[^}]*\}|\s+#+|[\s.:;,])++$"
)


def as_typed(name: str) -> str:
    """A title or heading without number, marks and anchor; unchanged if nothing would remain."""
    bare = _BEHIND.sub("", re.sub(r"^#+\s+", "", name))
    number = _NUMBER.match(bare)
    return bare[number.end() :] if number else bare or name
