"""Turns HTML into text: the blocks of a page, and HTML within texts of any source."""

import re
from html import unescape
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tercet.models.text.passages import as_typed
from tercet.models.text.words import encodable

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Elements that begin a new line, in the HTML standard and in older versions.
_BLOCKS = (
    "address|article|aside|blockquote|body|caption|center|dd|details|dialog|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|h1|h2|h3|h4|h5|h6|head|header|hr|html|legend|li|main|menu|ol|"
    "optgroup|option|p|pre|section|summary|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
# Elements that hold no text of the page's author.
_NO_TEXT = (
    "script|style|nav|noscript|template|svg|math|iframe|object|canvas|audio|video|select|textarea"
)
# Elements that are not the page's text: by role; and by name, if they have few words besides links
# (in books, a "sidebar" is prose).
_NO_TEXT_ROLES = frozenset(
    ("navigation", "search", "contentinfo", "banner", "menu", "tablist", "doc-toc")
)
_MENUS = re.compile(
    r"(?:^|[\s_-])(?:sphinxsidebar|sidebar|breadcrumbs?|(?:page-?|local)?toc|doc-?nav|menu|footer|"
    r"nav(?:header|footer|bar|igation)?|pagination)(?=$|[\s_-])",
    re.I,
)
_FEW = 25
_COUNT = re.compile(r"\d+\s")  # the start of a heading such as "16 colours", no section's number
# Texts of links from a heading to itself.
_PERMALINKS = ("#", "¶", "§", "🔗", "\uf0c1")
_EMPTY = "br|hr|img|input"
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|button|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|ruby|s|"
    "samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_OTHERS = "area|base|col|colgroup|embed|link|meta|param|rp|rt|source|track"
_KNOWN = "|".join((_BLOCKS, _NO_TEXT, _EMPTY, _INLINE, _OTHERS))
_ATTRIBUTES = (
    r"""(?:\s+[a-z_:@][-\w:.@]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'=<>`]++))?+)*+\s*+/?>"""
)
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_KNOWN})(?![-\w:])(?P<more>{_ATTRIBUTES})", re.I)
_UNKNOWN = re.compile(rf"<(?!/?(?:{_KNOWN})(?![-\w:])|/?[a-z]\w*+[-:]|!--|!doctype|\?xml\s)", re.I)
_ENTITY = re.compile(r"&(?:[a-z][a-z0-9]{1,30}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.I)
_ALONE = frozenset("|".join((_BLOCKS, _NO_TEXT, _EMPTY)).split("|"))
_QUOTES = "`'\""
# Depth of nested elements above which tags are only removed, since the parser's time grows with the
# square of the depth. Elements without an end tag do not count.
_DEEP = 2_000
_ENDLESS = frozenset(f"{_EMPTY}|{_OTHERS}|p|li|td|th|tr|dd|dt|tbody|thead|option|wbr".split("|"))
# Control characters, which are meaningless in texts, as marks: at the beginning of a block, a line,
# a table's cell, code and a heading of each level; and around the name of a place, a link and a
# button.
_BLOCK, _LINE, _CELL, _CODE, _PLACE, _LINK, _BUTTON = map(chr, range(1, 8))
_LEVELS = {"title": "\x10"} | {f"h{level}": chr(0x10 + level) for level in range(1, 7)}
_NO_MARKS = dict.fromkeys((*range(1, 8), *map(ord, _LEVELS.values())))
_LINES_OF_CODE = _NO_MARKS | {ord(_PLACE): _PLACE, ord(_BLOCK): "\n", ord(_LINE): "\n"}
_PLACES = re.compile(f"{_PLACE}([^{_PLACE}]*){_PLACE}")
_LINKS = re.compile(f"{_LINK}[^{_LINK}]*{_LINK}")
_BUTTONS = re.compile(f"{_BUTTON}[^{_BUTTON}]*{_BUTTON}")
_CELLS = ("td", "th")
_PARTING = frozenset(_BLOCKS.split("|")).difference(_CELLS)
# The least words a line, and the least share of letters, of prose in PRE: Java with long comments
# has a share of up to 0.84, discussions 0.94.
_LINE_WORDS, _LETTERS = 4, 0.85
_EMPTY_LINES = re.compile(r"\n\s*\n")


class Block(NamedTuple):
    """A paragraph of a page.

    texts: one text, or the texts of the cells of a table's row. place: the name of the nearest
    place before it. level: of a heading, 1 to 6; 0: the page's title, which is not part of its
    text. code: whether it is a line of code. menu: whether it is a paragraph or list item of links
    only. html: its source, if HTML was removed from it.
    """

    texts: tuple[str, ...]
    place: str = ""
    level: int | None = None
    code: bool = False
    menu: bool = False
    html: str = ""


def holds_html(text: str) -> bool:
    """Whether a text is written in HTML, and does not just mention a tag.

    A text is HTML if it has a line break, the end of a block, a block with attributes or directly
    between words, or both tags of any element; a tag after a quotation mark or a backtick does not
    count. These rules find HTML in 17 of 60,000 docstrings, mostly rightly; if every tag of a block
    counted, 14 docstrings more, which only mention a tag, would be found.
    """
    opened: set[str] = set()
    closed: set[str] = set()
    indent = len(text) - len(text.lstrip())
    for tag in _TAG.finditer(text):
        start, end = tag.span()
        if text[start - 1 : start] and text[start - 1] in _QUOTES:
            continue
        name = tag["name"].lower()
        (closed if tag["end"] else opened).add(name)
        certain = tag["end"] or tag["more"].strip("/> \t\r\n") or name in ("br", "hr")
        front = text[start - 1 : start].strip() or start <= indent
        glued = front and text[end : end + 1].strip()
        if name in _ALONE and (certain or glued):
            return True
    return not opened.isdisjoint(closed)


def text_of(text: str) -> str:
    """The text without HTML: blocks separated by empty lines, entities decoded once."""
    if "<" in text and encodable(text) and holds_html(text):
        return page_text(text)
    return decoded(text)


def decoded(text: str) -> str:
    """The text with its entities decoded once."""
    return _ENTITY.sub(lambda match: unescape(match[0]), text) if "&" in text else text


def page_text(markup: str) -> str:
    """The text of HTML: the title and each block as a paragraph, with empty lines between them.

    Code, scripts, styles and controls are left out. Tags of unknown elements (`List<String>`) are
    text.
    """
    return "\n\n".join(text for block in blocks(markup) if not block.code for text in block.texts)


def blocks(markup: str, places: str = "id") -> list[Block]:
    """The blocks of a page with text. places: the attribute that names places in the page.

    PRE holds code, unless the page has little other text and PRE reads like prose.
    """
    pieces, place = [], ""
    for piece in _marked(markup, places).split(_BLOCK):
        if _PLACE in piece:
            place = _PLACES.findall(piece)[-1]
            piece = _PLACES.sub("", piece)
        if piece.startswith(_CODE):
            pieces.append(Block((piece.strip(_CODE),), place, code=True))
            continue
        level = ord(piece[0]) - 0x10 if piece[:1] in _LEVELS.values() else None
        if _BUTTON in piece:
            # A button beside a text is a control; alone it is text, such as a question.
            beside = _BUTTONS.sub("", piece)
            piece = beside if any(map(str.isalnum, beside)) else piece.replace(_BUTTON, "")
        menu = False
        if _LINK in piece:
            beside = _LINKS.sub("", piece)
            menu = level is None and _CELL not in piece and not any(map(str.isalnum, beside))
            piece = piece.replace(_LINK, "")
        if texts := tuple(filter(None, map(_lines, piece[level is not None :].split(_CELL)))):
            if level is not None:
                texts = tuple(" ".join(text.split("\n")) for text in texts)
            if level is not None and not _COUNT.match(texts[0]):
                texts = tuple(map(as_typed, texts))
            pieces.append(Block(texts, place, level, menu=menu))
    words = [0, 0]
    for block in pieces:
        words[block.code] += sum(len(text.split()) for text in block.texts)
    read = []
    for block in pieces:
        text = block.texts[0]
        if not block.code:
            read.append(block)
        elif words[False] < words[True] and _is_prose(text):
            parts = _EMPTY_LINES.split(text)
            read += [Block((part,), block.place) for part in parts if part.strip()]
        else:
            lines = (line for line in text.splitlines() if any(map(str.isalpha, line)))
            read += [block._replace(texts=(line,)) for line in lines]
    return read


def _marked(markup: str, places: str) -> str:
    """The text of HTML with marks for blocks, lines, cells, code, places, links and buttons."""
    from selectolax.lexbor import LexborHTMLParser

    markup = _UNKNOWN.sub("&lt;", markup.translate(_NO_MARKS))
    if max(accumulate(map(_step, _TAG.finditer(markup))), default=0) > _DEEP:
        markup = _TAG.sub(_BLOCK, markup)
    page = LexborHTMLParser(markup)
    page.strip_tags(_NO_TEXT.split("|"))
    if page.root is None:
        return ""
    # Inner elements come first, so that the loop visits no element that it has removed.
    for node in reversed(list(page.root.traverse())):
        tag = node.tag or ""
        if _is_menu(node):
            node.decompose()
            continue
        named = "name" if tag == "a" and places == "id" else places
        name = node.attributes.get(places) or node.attributes.get(named)
        place = f"{_PLACE}{name}{_PLACE}" if name else ""
        if tag == "a" and node.text(deep=True).strip() in _PERMALINKS:
            node.replace_with(place)
        elif tag == "pre":
            code = node.text(deep=True).translate(_LINES_OF_CODE)
            node.replace_with(f"{_BLOCK}{place}{_CODE}{code}{_BLOCK}")
        elif tag == "br":
            node.insert_before(_LINE)
        elif tag in _CELLS:
            node.insert_before(_CELL + place)
        elif tag == "button" or (tag == "a" and node.attributes.get("href")):
            mark = _BUTTON if tag == "button" else _LINK
            node.insert_before(place + mark)
            node.insert_after(mark)
        elif tag in _PARTING and not (
            tag in ("p", "div")
            and node.parent is not None
            and node.parent.tag in _CELLS
            and len(list(node.parent.iter())) == 1
        ):
            mark = _CELL if tag in ("dt", "dd") else _LEVELS.get(tag, "")
            node.insert_before(_BLOCK + mark + place)
            node.insert_after(_BLOCK)
        elif place:
            node.insert_before(place)
    return page.root.text(deep=True)


def _is_menu(node: "LexborNode") -> bool:
    """Whether an element is a menu or page frame, by its role, or by its name and content."""
    role, *names = (node.attributes.get(name) or "" for name in ("role", "class", "id"))
    if role in _NO_TEXT_ROLES:
        return True
    named = node.tag == "footer" or any(map(_MENUS.search, names))
    if not named or node.tag in ("html", "body") or node.css_first("main,article,[role=main],h1"):
        return False
    if "footer" in names:  # its notice of copyright may be long
        return True
    text = node.text(deep=True)
    beside = len(_LINKS.sub("", text).split())
    return beside < _FEW or 2 * beside < len(text.split())


def _lines(text: str) -> str:
    """The text with single spaces, and line breaks for marks of lines."""
    return "\n".join(" ".join(line.split()) for line in text.split(_LINE)).strip("\n")


def _is_prose(text: str) -> bool:
    """Whether a text in PRE is prose: several words a line, and mostly letters."""
    words = text.split()
    lines = sum(bool(line.strip()) for line in text.splitlines())
    letters = sum(map(str.isalpha, text))
    return len(words) >= _LINE_WORDS * lines and letters >= _LETTERS * sum(map(len, words))


def _step(tag: re.Match[str]) -> int:
    """The change in depth at a tag."""
    return 0 if tag["name"].lower() in _ENDLESS else -1 if tag["end"] else 1
