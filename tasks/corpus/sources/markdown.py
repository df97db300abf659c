"""Markdown as plain lines of prose, headings told: without marks, code, tables, front matter."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from tercet.tasks.corpus.sources.streams import Line

# What opens a fence has none of its marks behind it: "```x``` prints x" is a line of text.
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,}(?=[^~]*$))")
_CLOSING = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING = re.compile(r"\s*(#{1,6})\s+")
_UNDERLINE = re.compile(r"\s{0,3}(=+|-+)\s*$")
_TITLE = re.compile(r"title\s*[:=]\s*(?P<quote>[\"']?)(?P<title>[^\s>|].*?)(?P=quote)\s*$", re.I)
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_QUOTE = re.compile(r"\s*>+\s?")
_TABLE = re.compile(r"\s*\|.*\|?\s*$")
_RULE = re.compile(r"\s*([-*_=]\s*){3,}$")
# No span may begin within another, and of emphasis the length is limited: else a long line of
# nothing but brackets or asterisks takes hours.
_TARGET = r"\((?:[^()]|\([^()]*\))*+\)"
_IMAGE = re.compile(rf"!\[[^\[\]]*+\]{_TARGET}")
_LINK = re.compile(rf"\[([^\[\]]++)\](?:{_TARGET}|\[[^\[\]]*+\])")
_COMMENT = re.compile(r"<!--.*?-->")
_TAG = re.compile(r"</?[A-Za-z][^<>]*+>")
_STRONG = re.compile(r"(\*\*|__|\*|(?<!`)`{1,4}(?!`))(\S(?:.{0,300}?\S)?)\1")
# Lines of front matter and of code, at most: a "---" that nothing closes is a rule, and a fence
# that nothing closes fences nothing.
_FRONT, _CODE = 1_000, 5_000


def plain_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without Markdown; headings and list items become paragraphs of their own.

    A blank line behind a heading tells its level; the title in front matter comes first.
    """
    rest = _behind_front_matter(iter(lines))
    while (line := next(rest, None)) is not None:
        text = line.text
        if opened := _FENCE.match(text):
            code, closed = _code(rest, opened[1])
            yield line._replace(text="")
            if closed:
                yield from (one for one in code if one.fault)
            else:
                rest = chain(code, rest)
        elif line.fault or not (_RULE.match(text) or _TABLE.match(text)):
            alone = _HEADING.match(text)
            if alone or _ITEM.match(text):
                yield line._replace(text="", fault="")
            yield line._replace(text=_plain(text))
            if alone:
                yield line._replace(text="", fault="", heading=len(alone[1]))
        else:
            under = _UNDERLINE.match(text)
            level = None if under is None else 1 if "=" in under[1] else 2
            yield line._replace(text="", heading=level)


def _code(lines: Iterator[Line], fence: str) -> tuple[list[Line], bool]:
    """The lines up to the one that closes the fence, and whether there is such a one."""
    held: list[Line] = []
    for line in islice(lines, _CODE):
        found = _CLOSING.match(line.text)
        if found and found[1].startswith(fence):
            return held, True
        held.append(line)
    return held, False


def _behind_front_matter(lines: Iterator[Line]) -> Iterator[Line]:
    held = list(islice(lines, 1))
    mark = held[0].text.strip() if held else ""
    if mark in ("---", "+++"):
        for line in islice(lines, _FRONT):
            held.append(line)
            if line.text.strip() in (mark, "..."):
                named = ((one, _TITLE.match(one.text)) for one in held if not one.fault)
                titles = [
                    one._replace(text=said["title"], heading=0) for one, said in named if said
                ]
                held = titles[:1]
                break
    yield from held
    yield from lines


def _plain(text: str) -> str:
    for mark in (_QUOTE, _HEADING, _ITEM):
        if found := mark.match(text):
            text = text[found.end() :]
    if "-->" in text:
        text = _COMMENT.sub("", text)
    text = _LINK.sub(r"\1", _IMAGE.sub("", _TAG.sub("", text)))
    return _STRONG.sub(r"\2", text)
