"""Reads pages in HTML, XHTML, Markdown or a document's format as blocks of text.

markdown-it and its plug-ins turn Markdown into HTML; pandoc or pdfium, in a separate process, turn
documents of other programs into HTML.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape, unescape
from importlib import metadata
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from tercet.tasks.corpus.sources import pdf
from tercet.tasks.corpus.sources.hypertext import Block, blocks
from tercet.tasks.corpus.sources.streams import (
    CHUNK,
    DOCUMENTS,
    KEPT_OF_LONG,
    Line,
    LineFault,
    format_of,
    lines,
    open_bytes,
    open_text,
    text_start,
)

# Signs between a page's title and the name of its site.
_SITES = ("|", "–", "—", "·", "•", "»", "«", "::", "- ")
# The beginning of a page in XML, and names of characters that only HTML defines.
_XHTML = re.compile(r"\s*(?:<\?xml\s|(?:<!doctype[^>]*>\s*)?<html\s[^>]*\bxmlns=)", re.I)
_NAMED = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[a-z][a-z0-9]*;", re.I)


def page_blocks(path: Path, max_bytes: int) -> Iterator[Block | Line]:
    """The blocks of a page without its menus, and its faulty lines.

    A page in HTML longer than `max_bytes` is a fault; Markdown is read in pieces of about that
    size.

    Raises:
        BadInput: as `streams.lines`.
    """
    if format_of(path)[0] == ".md":
        yield from _markdown_blocks(path, max_bytes)
        return
    markup = _document(path) if format_of(path)[0] in DOCUMENTS else _page(path, max_bytes)
    if isinstance(markup, Line):
        yield markup
        return
    page = _read(markup)
    first = next((block.texts[0] for block in page if block.level == 1), "")
    for block in page:
        texts = (_without_site(block.texts[0], first),) if block.level == 0 else block.texts
        place = f"#{block.place}" if block.place else ""
        yield block._replace(texts=texts, place=place)


def _document(path: Path) -> str | Line:
    try:
        return document_html(path)
    except ValueError as error:
        return Line(1, str(error), "bad_document")


def _page(path: Path, max_bytes: int) -> str | Line:
    raw = b""
    with open_text(path) as stream:
        while len(raw) <= max_bytes and (chunk := stream.read(CHUNK)):
            raw += chunk
    raw = text_start(path, raw)
    fault: LineFault = "page_too_long"
    if len(raw) <= max_bytes:
        try:
            return _html_of(raw.decode("utf-8"))
        except UnicodeDecodeError:
            fault = "not_utf8"
    return Line(1, raw[:KEPT_OF_LONG].decode("utf-8", "replace"), fault)


def _markdown_blocks(path: Path, max_bytes: int) -> Iterator[Block | Line]:
    mdx = ".mdx" in map(str.lower, path.suffixes)
    held: list[str] = []
    first, size = 1, 0

    def piece() -> Iterator[Block]:
        read = _read(markdown_html("\n".join(held), mdx, first), LINE)
        return (block._replace(place=f":{block.place or first}") for block in read)

    for line in lines(path, max_bytes):
        if line.fault:
            yield line
        held.append("" if line.fault else line.text)
        size += len(held[-1])
        if size > max_bytes and (not held[-1].strip() or size > 2 * max_bytes):
            yield from piece()
            first, size = line.number + 1, 0
            held.clear()
    yield from piece()


def _read(markup: str, places: str = "id") -> list[Block]:
    return [block for block in blocks(markup, places) if not block.menu]


def _html_of(markup: str) -> str:
    """A page in XML, in which elements may close themselves, as HTML; other pages unchanged."""
    if not _XHTML.match(markup):
        return markup
    from lxml import etree

    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
    try:
        named = _NAMED.sub(lambda name: unescape(name[0]), markup)
        page = etree.fromstring(named.encode(), parser)
    except etree.XMLSyntaxError:  # not XML in spite of its beginning
        return markup
    return str(etree.tostring(page, method="html", encoding="unicode"))


def _without_site(title: str, heading: str) -> str:
    """The title; if it is the page's first heading and the name of a site, the heading."""
    rest = title.removeprefix(heading).lstrip()
    return heading if heading and rest != title and rest.startswith(_SITES) else title


# Limits: bytes of a file; and time and memory of its process (for pandoc, its heap).
_LARGEST, _SECONDS, _MEGABYTES = 200_000_000, 60, 2_000


def reading_version(form: str) -> str:
    """The library that reads a format, and its version; empty if Tercet reads it."""
    if form not in DOCUMENTS:
        return ""
    distribution = "pypdfium2" if form == ".pdf" else "pypandoc-binary"
    return f" {distribution} {metadata.version(distribution)}"


def document_html(path: Path) -> str:
    """A document as HTML.

    Raises:
        BadInput: as `open_bytes`.
        ValueError: the document is damaged, or takes too much time or memory.
    """
    import pypandoc

    form, _ = format_of(path)
    with open_bytes(path) as stream:
        raw = stream.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise ValueError(f"it is longer than {_LARGEST} bytes")
    command = [sys.executable, "-P", pdf.__file__, str(_MEGABYTES)]
    if form != ".pdf":
        command = [pypandoc.get_pandoc_path(), "--sandbox", "--standalone", "--to", "html"]
        # By default, pandoc gives a document without a title the title "-".
        command += ["--from", DOCUMENTS[form], "--variable", "pagetitle= "]
        command += ["+RTS", f"-M{_MEGABYTES}m", "-RTS"]
    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"reading it takes longer than {_SECONDS} seconds") from None
    if done.returncode:
        messages = done.stderr.decode("utf-8", "replace").split("\n")
        lines = [line.strip() for line in messages if line.strip()]
        raise ValueError(lines[-1] if lines else f"its reader ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


# The attribute with the line of the file in which an element begins.
LINE = "tercet-line"
_FRONT = re.compile(
    r"(---|\+\+\+)[^\S\n]*\n(?P<content>(?:.*\n){0,1000}?)(?:\1|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE = re.compile(
    r"^title\s*[:=]\s*(?P<quote>[\"']?)(?P<title>[^\s>|].*?)(?P=quote)\s*$", re.I | re.M
)
# Parts that are not text: marks of GitHub's notes, MyST's targets, attributes after a block, and
# templates of Jinja, Liquid and Hugo, except in backticks, where the text is about them.
_MARKS = re.compile(
    r"\A\[![A-Za-z]+\](?=\s)|\A\([^()\s]+\)=[^\S\n]*(?=\n|\Z)|"
    r"(?:\A|\s)\{:?\s*[#.][^{}\n]*\}\s*\Z|"
    r"(?<!`)(?:\{\{[^{}]*+\}\}|\{%(?:[^%]|%(?!\})){0,300}+%\}|\{#(?:[^#]|#(?!\})){0,300}+#\})"
)
# MDX's modules, and tags of components.
_MODULE = re.compile(r"(?:import|export)\s")
_COMPONENT = re.compile(r"</?[A-Z][^<>`]*+>|<>|</>")
# The head of a fence around Markdown: three colons, or a directive of MyST that holds no code.
_DIRECTIVE = re.compile(
    r"\{?(?!(?:code[\w-]*|math|mermaid|toctree|raw|include|literalinclude|eval-rst|contents|dot|"
    r"csv-table|r|python|julia|bash|sh|sql|js|ojs)(?![\w:-]))[\w:-]+\}?\s*(?P<title>(?!\S+\.\w+$).*)"
)
_OPTIONS = re.compile(r"(?:[^\S\n]*:[\w-]+:.*\n)*|---\n(?:.*\n)*?---\n")
_DEEP = 20  # depth of nested directives
# Beginnings of fences and comments, which are text if nothing closes them.
_OPENS = re.compile(r"`{3,}|~{3,}|<!--")
_TRIES = 5


def markdown_html(text: str, mdx: bool = False, first: int = 1) -> str:
    """The text as HTML, each block with its `LINE`; front matter gives the title.

    mdx: whether it has components. first: the number of its first line.
    """
    title = ""
    if front := _FRONT.match(text):
        match = _TITLE.search(front["content"])
        title = f"<title>{escape(match['title'])}</title>" if match else ""
        text = "\n" * front[0].count("\n") + text[front.end() :]
    return title + _html(text, mdx, first)


def _html(text: str, mdx: bool, first: int, depth: int = 0) -> str:
    lines = text.split("\n")
    env = {"mdx": mdx, "first": first, "depth": depth}
    parser = _parser()
    for _ in range(_TRIES):
        tokens = parser.parse("\n".join((*lines, "")), env)
        opened = [token.map for token in tokens if token.map is not None and _is_open(token)]
        if not opened:
            break
        for start, end in opened:
            lines[start:end] = [_OPENS.sub("", line) for line in lines[start:end]]
    return str(parser.renderer.render(tokens, parser.options, env))


def _is_open(token: Token) -> bool:
    """Whether a fence or a comment is not closed, and so lasts to the end."""
    if token.type == "html_block":
        return "<!--" in token.content[:8] and "-->" not in token.content
    start, end = token.map or (0, 0)
    return token.type == "fence" and token.content.count("\n") == end - start - 1


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])
    for plugin in (admon_plugin, colon_fence_plugin, deflist_plugin, footnote_plugin):
        parser.use(plugin)
    parser.use(myst_role_plugin)
    # Footnotes stay where they are written.
    parser.disable(["footnote_tail", "footnote_inline"])
    for name in ("footnote_ref", "footnote_reference_open", "footnote_reference_close"):
        parser.add_render_rule(name, lambda *given: "")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("colon_fence", _fence)
    parser.add_render_rule("myst_role", _role)
    parser.core.ruler.after("block", "tercet", _prepare)
    return parser


def _prepare(state: StateCore) -> None:
    """Sets the lines of blocks, and removes parts that are not text."""
    for token in state.tokens:
        if token.map is not None:
            token.attrSet(LINE, str(state.env["first"] + token.map[0]))
        if token.type in ("inline", "html_block"):
            token.content = _MARKS.sub("", token.content)
            if state.env["mdx"]:
                module = _MODULE.match(token.content)
                token.content = "" if module else _COMPONENT.sub("", token.content)


def _fence(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    info = token.info.strip()
    directive = _DIRECTIVE.match(info) if token.markup[0] == ":" or info[:1] == "{" else None
    if directive is None or env["depth"] == _DEEP:
        return str(renderer.fence(tokens, at, options, env))
    settings = _OPTIONS.match(token.content)
    behind = settings.end() if settings else 0
    first = env["first"] + (token.map or [0])[0] + 1 + token.content.count("\n", 0, behind)
    body = _html(token.content[behind:], env["mdx"], first, env["depth"] + 1)
    return f'<p {LINE}="{first - 1}">{escape(directive["title"])}</p>{body}'


def _role(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """A role's text, without its target."""
    return escape(tokens[at].content.strip("`").partition(" <")[0])
