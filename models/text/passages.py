"""A passage and its context: the title and the headings above it, without marks of their page."""

import re

_BETWEEN = " > "


def passage_text(context: str, text: str) -> str:
    """What an encoder reads of a passage."""
    return f"{context}\n{text}" if context else text


def context_of(names: list[str]) -> str:
    """The title and the headings above a passage, from the outermost on, as one line."""
    return _BETWEEN.join(names)


def above(context: str) -> list[str]:
    """The names in a context, from the outermost on."""
    return context.split(_BETWEEN) if context else []


# The number of a section: "8.", "2.3", "F.12.", "Chapter 5.", "3)", and "4" before a capital.
_NUMBER = re.compile(
    r"""(?:(?i:chapter|section|appendix|part)\s+(?:\d+|[A-Z]|[IVXLC]+)(?:\.\d+)*[.:)]?
        |(?:§\s*)?(?:\d+|[A-Z])(?:\.\d+)+[.:)]?
        |(?:§\s*)?\d+[.:)]
        |\d+(?=\s+[A-Z]))\s+(?=.*[^\W\d_])""",
    re.VERBOSE,
)
# A heading's end in Markdown, or the way to it: a pilcrow, perhaps as a link, or an anchor.
_BEHIND = re.compile(
    r"(?:\s*\[?[¶§🔗\uf0c1]\]?(?:\([^)]*\))?|\s*\{:?\s*#[^}]*\}|\s+#+|[\s.:;,])++$"
)


def as_typed(name: str) -> str:
    """A title or a heading without its number, marks and anchor; as it is if nothing is left."""
    bare = _BEHIND.sub("", re.sub(r"^#+\s+", "", name))
    number = _NUMBER.match(bare)
    return bare[number.end() :] if number else bare or name
