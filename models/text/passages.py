"""A passage's context: the title and the headings above it, without numbers and marks."""

import re

_BETWEEN = " > "


def passage_text(context: str, text: str) -> str:
    """The text of a passage that an encoder reads."""
    return f"{context}\n{text}" if context else text


def context_of(names: list[str]) -> str:
    """The title and the headings above a passage, outermost first, as one line."""
    return _BETWEEN.join(names)


def above(context: str) -> list[str]:
    """The inverse of `context_of`."""
    return context.split(_BETWEEN) if context else []


# The number of a section: "8.", "2.3", "F.12.", "Chapter 5.", "3)", and "4" before a capital.
_NUMBER = re.compile(
    r"""(?:(?i:chapter|section|appendix|part)\s+(?:\d+|[A-Z]|[IVXLC]+)(?:\.\d+)*[.:)]?
        |(?:§\s*)?(?:\d+|[A-Z])(?:\.\d+)+[.:)]?
        |(?:§\s*)?\d+[.:)]
        |\d+(?=\s+[A-Z]))\s+(?=.*[^\W\d_])""",
    re.VERBOSE,
)
# Marks at a heading's end: a pilcrow, perhaps as a link, an anchor, Markdown's signs, punctuation.
_BEHIND = re.compile(
    r"(?:\s*\[?[¶§🔗\uf0c1]\]?(?:\([^)]*\))?|\s*\{:?\s*#[^}]*\}|\s+#+|[\s.:;,])++$"
)


def as_typed(name: str) -> str:
    """A title or a heading without number, marks and anchor; unchanged if nothing would be left."""
    bare = _BEHIND.sub("", re.sub(r"^#+\s+", "", name))
    number = _NUMBER.match(bare)
    return bare[number.end() :] if number else bare or name
