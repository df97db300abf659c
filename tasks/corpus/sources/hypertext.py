"""HTML as text: pages in files, and what of it stands in a text of any source."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import accumulate
from pathlib import Path

from tercet.models.text.unicode import encodable
from tercet.tasks.corpus.sources.streams import CHUNK, KEPT_OF_LONG, Line, open_bytes, text_start

# Elements that begin a line of their own, of the HTML standard and older ones.
BLOCKS = (
    "address|article|aside|blockquote|body|caption|center|dd|details|dialog|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|h1|h2|h3|h4|h5|h6|head|header|hr|html|legend|li|main|menu|ol|"
    "optgroup|option|p|section|summary|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
# Elements that hold no text of the page's author, or code.
_NO_TEXT = (
    "script|style|nav|noscript|template|svg|math|iframe|object|canvas|audio|video|select|button|"
    "textarea|pre"
)
# What a link shows that leads to the heading that it stands behind.
_PERMALINKS = ("#", "¶", "§", "🔗", "\uf0c1")
_EMPTY = "br|hr|img|input"
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|ruby|s|"
    "samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_OTHERS = "area|base|col|colgroup|embed|link|meta|param|rp|rt|source|track"
_KNOWN = "|".join((BLOCKS, _NO_TEXT, _EMPTY, _INLINE, _OTHERS))
_ATTRIBUTES = (
    r"""(?:\s+[a-z_:@][-\w:.@]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'=<>`]++))?+)*+\s*+/?>"""
)
TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_KNOWN})(?![-\w:])(?P<more>{_ATTRIBUTES})", re.I)
_UNKNOWN = re.compile(rf"<(?!/?(?:{_KNOWN})(?![-\w:])|/?[a-z]\w*+[-:]|!--|!doctype)", re.I)
_ENTITY = re.compile(r"&(?:[a-z][a-z0-9]{1,30}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.I)
_ALONE = frozenset("|".join((BLOCKS, _NO_TEXT, _EMPTY)).split("|"))
_QUOTES = "`'\""
# What stands between a page's own title and the name of its site.
_SITES = ("|", "–", "—", "·", "•", "»", "«", "::", "- ")
# Elements within each other, above which only their tags are taken out: a parser's time grows with
# their square. Those that need no end do not count.
_DEEP = 2_000
_ENDLESS = frozenset(f"{_EMPTY}|{_OTHERS}|p|li|td|th|tr|dd|dt|tbody|thead|option|wbr".split("|"))
# Control characters, which mean nothing in a text, for where a block begins or ends, and a line,
# and for what a block is that is a heading.
_BLOCK, _LINE = "\x01", "\x02"
_HEADINGS = {"\x03": "title"} | {chr(0x10 + level): f"h{level}" for level in range(1, 7)}
_NO_MARKS = dict.fromkeys(map(ord, (_BLOCK, _LINE, *_HEADINGS)))


def holds_html(text: str) -> bool:
    """Whether a text is written in HTML, and does not only name a tag.

    It is if it has a line break, the end of a block, a block with attributes or between words
    without a space, or both tags of any element; a tag behind a quotation mark or a backtick does
    not count. Of 60,000 docstrings, 17 are taken for HTML so, and most of them hold some; if every
    tag of a block counted, 14 more would be, which name one.
    """
    opened: set[str] = set()
    closed: set[str] = set()
    indent = len(text) - len(text.lstrip())
    for tag in TAG.finditer(text):
        start, end = tag.span()
        if text[start - 1 : start] and text[start - 1] in _QUOTES:
            continue
        name = tag["name"].lower()
        (closed if tag["end"] else opened).add(name)
        said = tag["end"] or tag["more"].strip("/> \t\r\n") or name in ("br", "hr")
        front = text[start - 1 : start].strip() or start <= indent
        glued = front and text[end : end + 1].strip()
        if name in _ALONE and (said or glued):
            return True
    return not opened.isdisjoint(closed)


def text_of(text: str) -> str:
    """The text without HTML: blocks parted by empty lines, entities decoded once.

    A text that holds none comes back as it is.
    """
    if "<" in text and encodable(text) and holds_html(text):
        return page_text(text)
    return decoded(text)


def decoded(text: str) -> str:
    """The text with its entities decoded once."""
    return _ENTITY.sub(lambda found: unescape(found[0]), text) if "&" in text else text


def page_text(markup: str) -> str:
    """The text of HTML: its title and each block a paragraph, an empty line between them.

    Code, scripts, styles, menus and controls are left out. What looks like a tag of no HTML element
    (`List<String>`) is text.
    """
    return "\n\n".join(text for _, text in _blocks(markup))


def _blocks(markup: str) -> Iterator[tuple[int | None, str]]:
    """The blocks that hold text, each with its level if it is a heading (0: the title)."""
    from selectolax.lexbor import LexborHTMLParser

    markup = _UNKNOWN.sub("&lt;", markup.translate(_NO_MARKS))
    if max(accumulate(map(_step, TAG.finditer(markup))), default=0) > _DEEP:
        markup = TAG.sub(_BLOCK, markup)
    page = LexborHTMLParser(markup)
    page.strip_tags(_NO_TEXT.split("|"))
    for link in page.css("a"):
        if link.text(deep=True).strip() in _PERMALINKS:
            link.decompose()
    for mark, names in ((_BLOCK, BLOCKS), (_LINE, "br")):
        for node in page.css(names.replace("|", ",")):
            node.insert_before(mark)
            node.insert_after(mark)
    for mark, name in _HEADINGS.items():
        for node in page.css(name):
            node.insert_before(mark)
    root = page.root
    for block in ("" if root is None else root.text(deep=True)).split(_BLOCK):
        named = _HEADINGS.get(block[:1])
        level = None if named is None else int(named[1:]) if named != "title" else 0
        lines = (block if named is None else block[1:]).replace(2 * _LINE, _LINE).split(_LINE)
        if text := "\n".join(" ".join(line.split()) for line in lines).strip("\n"):
            yield level, text


def _without_site(title: str, heading: str) -> str:
    """The page's first heading, if the title is that and, behind it, the name of a site."""
    rest = title.removeprefix(heading).lstrip()
    return heading if heading and rest != title and rest.startswith(_SITES) else title


def _step(tag: re.Match[str]) -> int:
    """By how much a tag makes the elements deeper that it stands in."""
    return 0 if tag["name"].lower() in _ENDLESS else -1 if tag["end"] else 1


def page_lines(path: Path, max_bytes: int) -> Iterator[Line]:
    """The text of a page, or its fault. Behind a block is an empty line, which tells a heading.

    Raises:
        BadInput: as `streams.lines`.
    """
    raw = b""
    with open_bytes(path) as stream:
        while len(raw) <= max_bytes and (chunk := stream.read(CHUNK)):
            raw += chunk
    raw = text_start(path, raw)
    if len(raw) > max_bytes:
        yield Line(1, raw[:KEPT_OF_LONG].decode("utf-8", "replace"), "page_too_long", 0)
        return
    try:
        markup = raw.decode("utf-8")
    except UnicodeDecodeError:
        yield Line(1, raw[:KEPT_OF_LONG].decode("utf-8", "replace"), "not_utf8", 0)
        return
    number = 0
    blocks = list(_blocks(markup))
    for level, text in blocks:
        if level == 0:
            text = _without_site(text, next((first for top, first in blocks if top == 1), ""))
        for line in text.split("\n"):
            number += 1
            yield Line(number, line, "", 0, heading=0 if level == 0 else None)
        if level != 0:
            number += 1
            yield Line(number, "", "", 0, heading=level)
