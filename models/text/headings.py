"""Titles and headings as somebody types them, and what a passage's context says beside them."""

import re

from tercet.models.text.passages import above, context_of

# The number of a section: "8.", "2.3", "F.12.", "Chapter 5.", "3)", and "4" before a capital.
_NUMBER = re.compile(
    r"""(?:(?i:chapter|section|appendix|part)\s+(?:\d+|[A-Z]|[IVXLC]+)(?:\.\d+)*[.:)]?
        |(?:§\s*)?(?:\d+|[A-Z])(?:\.\d+)+[.:)]?
        |(?:§\s*)?\d+[.:)]
        |\d+(?=\s+[A-Z]))\s+(?=.*[^\W\d_])""",
    re.VERBOSE,
)
# What closes a heading in Markdown, or leads to it: a pilcrow, perhaps as a link, or an anchor.
_BEHIND = re.compile(r"(?:\s*\[?[¶§🔗\uf0c1]\]?(?:\([^)]*\))?|\s*\{:?\s*#[^}]*\}|\s+#+|[\s.:;,])+$")


def as_typed(name: str) -> str:
    """A title or a heading without its number, marks and anchor; as it is if nothing is left."""
    bare = _BEHIND.sub("", re.sub(r"^#+\s+", "", name))
    return _NUMBER.sub("", bare, count=1) or name


def without_query(context: str, query: str) -> str:
    """The context without the names that the query consists of, or that have all of its words."""
    asked = _words(query)
    return context_of([name for name in above(context) if not _overlap(_words(name), asked)])


def _overlap(words: set[str], others: set[str]) -> bool:
    return words <= others or others <= words


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", as_typed(name).casefold()))
