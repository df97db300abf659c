"""Markdown as plain lines of prose: without its marks, code, tables and front matter."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from tercet.tasks.corpus.sources.streams import Line

# Of backticks, none may stand behind the fence: "```x``` prints x" is a line of text.
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_QUOTE = re.compile(r"\s*>+\s?")
_TABLE = re.compile(r"\s*\|.*\|?\s*$")
_RULE = re.compile(r"\s*([-*_=]\s*){3,}$")
# Spans have an end, so that a long line of nothing but brackets or asterisks takes no hours.
_IMAGE = re.compile(r"!\[[^\]]{0,300}\]\([^)]{0,2000}\)")
_LINK = re.compile(r"\[([^\]]{1,300})\](?:\([^)]{0,2000}\)|\[[^\]]{0,300}\])")
_TAG = re.compile(r"<!--.{0,2000}?-->|</?[A-Za-z][^>]{0,2000}>")
_STRONG = re.compile(r"(\*\*|__|\*|(?<!`)`{1,4}(?!`))(\S(?:.{0,300}?\S)?)\1")
# Lines of front matter, at most: a "---" that nothing closes is a rule.
_FRONT = 200


def plain_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without Markdown; headings and list items become paragraphs of their own."""
    fence: str | None = None
    for line in _behind_front_matter(iter(lines)):
        text = line.text
        if found := _FENCE.match(text):
            if fence is None:
                fence = found[1]
            elif found[1].startswith(fence) and text.strip() == found[1]:
                fence = None
            yield line._replace(text="")
        elif line.fault or (fence is None and not _RULE.match(text) and not _TABLE.match(text)):
            alone = _HEADING.match(text)
            if alone or _ITEM.match(text):
                yield line._replace(text="", fault="")
            yield line._replace(text=_plain(text))
            if alone:
                yield line._replace(text="", fault="")
        else:
            yield line._replace(text="")


def _behind_front_matter(lines: Iterator[Line]) -> Iterator[Line]:
    held = list(islice(lines, 1))
    if held and held[0].text.strip() == "---":
        for line in islice(lines, _FRONT):
            held.append(line)
            if line.text.strip() in ("---", "..."):
                held = []
                break
    yield from held
    yield from lines


def _plain(text: str) -> str:
    for mark in (_QUOTE, _HEADING, _ITEM):
        if found := mark.match(text):
            text = text[found.end() :]
    text = _LINK.sub(r"\1", _IMAGE.sub("", _TAG.sub("", text)))
    return _STRONG.sub(r"\2", text)
