"""Pages in files, in HTML, XHTML, Markdown or a document's format, as blocks of text.

Documents of other programs become HTML by pandoc or pdfium, in a process of its own.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from importlib import metadata
from pathlib import Path

from tercet.tasks.corpus.sources import pdf
from tercet.tasks.corpus.sources.hypertext import Block, blocks
from tercet.tasks.corpus.sources.markdown import LINE, html_of
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

# What stands between a page's own title and the name of its site.
_SITES = ("|", "–", "—", "·", "•", "»", "«", "::", "- ")
# What says that a page is XML, and names of characters that only HTML knows.
_XHTML = re.compile(r"\s*(?:<\?xml\s|(?:<!doctype[^>]*>\s*)?<html\s[^>]*\bxmlns=)", re.I)
_NAMED = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[a-z][a-z0-9]*;", re.I)


def page_blocks(path: Path, max_bytes: int) -> Iterator[Block | Line]:
    """The blocks of a page but for its menus, and the lines of it that are faults.

    Of HTML, a page that is longer than `max_bytes` is one; Markdown is read in pieces of that size.

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
        found = _read(html_of("\n".join(held), mdx, first), LINE)
        return (block._replace(place=f":{block.place or first}") for block in found)

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
    """A page that says that it is XML, in which elements may close themselves, as HTML."""
    if not _XHTML.match(markup):
        return markup
    from lxml import etree

    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
    try:
        named = _NAMED.sub(lambda name: unescape(name[0]), markup)
        page = etree.fromstring(named.encode(), parser)
    except etree.XMLSyntaxError:  # it is no XML, whatever it says
        return markup
    return str(etree.tostring(page, method="html", encoding="unicode"))


def _without_site(title: str, heading: str) -> str:
    """The page's first heading, if the title is that and, behind it, the name of a site."""
    rest = title.removeprefix(heading).lstrip()
    return heading if heading and rest != title and rest.startswith(_SITES) else title


# Bytes of a file, and what its process may take. Pandoc's own bound is that of its heap.
_LARGEST, _SECONDS, _MEGABYTES = 200_000_000, 60, 2_000


def reading_version(form: str) -> str:
    """The library that reads a format, and its version; empty where Tercet reads it itself."""
    if form not in DOCUMENTS:
        return ""
    distribution = "pypdfium2" if form == ".pdf" else "pypandoc-binary"
    return f" {distribution} {metadata.version(distribution)}"


def document_html(path: Path) -> str:
    """A document as HTML.

    Raises:
        BadInput: as `open_bytes`.
        ValueError: the document is damaged, or takes too much time or memory: why.
    """
    import pypandoc

    form, _ = format_of(path)
    with open_bytes(path) as stream:
        raw = stream.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise ValueError(f"it is longer than {_LARGEST} bytes")
    command = [sys.executable, "-P", pdf.__file__, str(_MEGABYTES)]
    if form != ".pdf":
        command = [
            pypandoc.get_pandoc_path(),
            "--sandbox",
            "--standalone",
            "--to",
            "html",
            "--from",
        ]
        # Without a title of their own, pages would be called "-".
        command += [
            DOCUMENTS[form],
            "--variable",
            "pagetitle= ",
            "+RTS",
            f"-M{_MEGABYTES}m",
            "-RTS",
        ]
    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"reading it takes longer than {_SECONDS} seconds") from None
    if done.returncode:
        messages = done.stderr.decode("utf-8", "replace").split("\n")
        lines = [line.strip() for line in messages if line.strip()]
        raise ValueError(lines[-1] if lines else f"its reader ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
