"""Markdown as plain lines of prose: without its marks, code, tables and front matter."""

import re
from collections.abc import Iterable, Iterator

from tercet.tasks.corpus.sources.streams import Line

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s+")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_QUOTE = re.compile(r"\s*>+\s?")
_TABLE = re.compile(r"\s*\|.*\|?\s*$")
_RULE = re.compile(r"\s*([-*_=]\s*){3,}$")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])")
_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^>]*>")
_STRONG = re.compile(r"(\*\*|__|\*|`+)(\S(?:.*?\S)?)\1")


def plain_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without Markdown; headings and list items become paragraphs of their own."""
    fence: str | None = None
    front = False
    for line in lines:
        text = line.text
        if line.number == 1 and text.strip() == "---":
            front = True
        elif front:
            front = text.strip() not in ("---", "...")
        elif found := _FENCE.match(text):
            fence = found[1] if fence is None else None if found[1] == fence else fence
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


def _plain(text: str) -> str:
    for mark in (_QUOTE, _HEADING, _ITEM):
        if found := mark.match(text):
            text = text[found.end() :]
    text = _LINK.sub(r"\1", _IMAGE.sub("", _TAG.sub("", text)))
    return _STRONG.sub(r"\2", text)
