"""Markdown as plain lines of prose, headings told.

Marks, code, tables, front matter, blocks of HTML, templates, badges and mere links are left out.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from tercet.tasks.corpus.sources.hypertext import BLOCKS, TAG, decoded
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
_IMAGE = re.compile(rf"!\[[^\[\]]*+\](?:{_TARGET}|\[[^\[\]]*+\])")
_LINK = re.compile(rf"\[([^\[\]]*+)\](?:{_TARGET}|\[[^\[\]]*+\])")
_COMMENT = re.compile(r"<!--.*?-->")
_ADDRESS = re.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]*+|[^<>@\s]++@[^<>@\s]++)>")
_REFERENCE = re.compile(
    r"\s{0,3}\[(?!\^)[^\[\]]++\]:\s*+\S++(?:\s++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?+\s*+$"
)
# Jinja's, Liquid's and Hugo's; in backticks it is what a text is about.
_TEMPLATE = re.compile(
    r"(?<!`)(?:\{\{[^{}]*+\}\}|\{%(?:[^%]|%(?!\})){0,300}+%\}|\{#(?:[^#]|#(?!\})){0,300}+#\})"
)
# What opens a block of HTML, up to its end or an empty line; and a tag alone in its line.
_BLOCK = re.compile(rf"\s{{0,3}}(?:<(?P<name>{BLOCKS})(?=[\s/>]|$)|</?[A-Za-z][^<>]*+>\s*+$)", re.I)
_RAW = re.compile(r"\s{0,3}(?:<(?P<name>script|style|pre|textarea)(?=[\s>]|$)|<!--)", re.I)
_STRONG = re.compile(r"(\*\*|__|\*|(?<!`)`{1,4}(?!`))(\S(?:.{0,300}?\S)?)\1")
# Lines of front matter and of code, at most: a "---" that nothing closes is a rule, and a fence
# that nothing closes fences nothing.
_FRONT, _CODE = 1_000, 5_000


def plain_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without Markdown; headings and list items become paragraphs of their own.

    A blank line behind a heading tells its level; the title in front matter comes first.
    """
    held: list[Line] = []
    opened = False  # a paragraph goes on
    for line, bare in _read(_behind_front_matter(iter(lines))):
        if bare and not opened:
            held.append(line)
            continue
        goes_on = line.heading != 0 and bool(line.text.strip())
        # Lines of links are none of the text, unless they are part of a paragraph.
        yield from (one if goes_on else one._replace(text="") for one in held)
        held.clear()
        opened = goes_on
        yield line
    yield from (one._replace(text="") for one in held)


def _read(rest: Iterator[Line]) -> Iterator[tuple[Line, bool]]:
    """The lines without marks, each with whether it holds links and no words besides."""
    endless: dict[str, int] = {}  # ends that no line has before that of this number
    while (line := next(rest, None)) is not None:
        text = line.text
        if opened := _FENCE.match(text):
            code, closed = _code(rest, opened[1])
            yield line._replace(text=""), False
            if closed:
                yield from ((one, False) for one in code if one.fault)
            else:
                rest = chain(code, rest)
        elif not line.fault and (raw := _RAW.match(text)):
            end = f"</{raw['name'].lower()}" if raw["name"] else "-->"
            if end in text[raw.end() :].lower():
                yield line._replace(text="" if raw["name"] else _plain(text)), False
                continue
            # Looked for once, not from each of the lines behind.
            known = line.number < endless.get(end, 0)
            within, closed = ([], False) if known else _up_to(rest, end)
            yield line._replace(text="" if closed else _plain(text)), False
            if closed:
                yield from ((one, False) for one in within if one.fault)
            elif within:
                endless[end] = line.number + len(within)
                rest = chain(within, rest)
        elif not line.fault and (block := _BLOCK.match(text)):
            yield line._replace(text=""), False
            end = f"</{block['name']}".lower()
            inside = bool(block["name"]) and end not in text.lower()
            while inside and (line := next(rest, None)) is not None:
                inside = bool(line.text.strip()) and end not in line.text.lower()
                yield line._replace(text=""), False
        elif not line.fault and _REFERENCE.match(text):
            yield line._replace(text=""), False
        elif line.fault or not (_RULE.match(text) or _TABLE.match(text)):
            alone = _HEADING.match(text)
            if alone or _ITEM.match(text):
                yield line._replace(text="", fault=""), False
            yield line._replace(text=_plain(text)), not (alone or line.fault) and _bare(text)
            if alone:
                yield line._replace(text="", fault="", heading=len(alone[1])), False
        else:
            under = _UNDERLINE.match(text)
            level = None if under is None else 1 if "=" in under[1] else 2
            yield line._replace(text="", heading=level), False


def _up_to(lines: Iterator[Line], end: str) -> tuple[list[Line], bool]:
    """The lines up to the one that holds the end, and whether there is such a one."""
    held: list[Line] = []
    for line in islice(lines, _CODE):
        held.append(line)
        if end in line.text.lower():
            return held, True
    return held, False


def _bare(text: str) -> bool:
    links = _LINK.sub("", _IMAGE.sub("", text))
    return links != text and not any(map(str.isalnum, _ADDRESS.sub("", _ITEM.sub("", links, 1))))


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
    if "{" in text:
        text = _TEMPLATE.sub("", text)
    if "<" in text:
        text = TAG.sub(_space, _ADDRESS.sub("", text))
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    return decoded(_STRONG.sub(r"\2", text))


def _space(tag: re.Match[str]) -> str:
    """What stands for a tag, so that words beside a line break or a cell are not glued."""
    return " " if tag["name"].lower() in ("br", "td", "li", "p", "div") else ""
