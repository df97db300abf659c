"""Reads lines of plain and compressed files in bounded memory, decoded or marked as faulty."""

import codecs
import errno
import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import util
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, cast

import pyarrow as pa

from tercet.tasks.stage import BadInput

LineFault: TypeAlias = Literal["", "not_utf8", "line_too_long", "page_too_long", "bad_document"]
RowFault: TypeAlias = tuple[str, str, str]  # reason, detail, text

CHUNK = 1 << 18
SHOWN = 200  # characters of a rejected row's text that are kept
KEPT_OF_LONG = 4 * SHOWN  # bytes: a character has at most four
# Formats of other programs' documents in pandoc, which the extra `documents` installs; it does not
# read PDF.
DOCUMENTS = {
    ".adoc": "asciidoc",
    ".dbk": "docbook",
    ".docx": "docx",
    ".epub": "epub",
    ".ipynb": "ipynb",
    ".man": "man",
    ".mediawiki": "mediawiki",
    ".odt": "odt",
    ".org": "org",
    ".pdf": "",
    ".rst": "rst",
    ".rtf": "rtf",
    ".tex": "latex",
    ".textile": "textile",
}
DOCUMENTS_EXTRA = "pip install 'tercet[documents]'"
PAGES = (".md", ".html", *DOCUMENTS)
_OTHER_NAMES = {".htm": ".html", ".xhtml": ".html", ".markdown": ".md", ".mdx": ".md"}
PLAIN = (".txt", *PAGES)  # text without columns
SEPARATED = (".csv", ".tsv")
JSON = (".jsonl", ".json")
FORMATS = (".txt", ".md", ".html", *JSON, *SEPARATED, ".parquet")
COMPRESSIONS = (".gz", ".zst")
# Bytes from which the encoding is guessed, and bytes in which a page may name it.
_BEGINNING, _HEAD = 1_000_000, 4096
_SAMPLE = 200_000  # bytes that chardet gets at most
_MAGIC = (
    (b"\x1f\x8b", "gzip data", ".gz"),
    (b"\x28\xb5\x2f\xfd", "zstandard data", ".zst"),
    (b"PAR1", "Parquet data", ".parquet"),
)
_RETURNS = re.compile(rb"\r+\n")
_DAMAGE = (zlib.error, EOFError, gzip.BadGzipFile, pa.ArrowException)


class Line(NamedTuple):
    """A line without its end; a too long line is cut to its beginning."""

    number: int
    text: str
    fault: LineFault = ""


def fault_of(line: Line, max_bytes: int) -> RowFault:
    """The reason, detail and text of a line with a fault."""
    shown = "" if line.fault == "bad_document" else line.text[:SHOWN]
    detail = {
        "": "",
        "bad_document": line.text,
        "not_utf8": "the line is not UTF-8",
        "line_too_long": f"the line is longer than {max_bytes} bytes",
        "page_too_long": f"the page is longer than {max_bytes} bytes: raise ingest.max_line_bytes",
    }
    return line.fault, detail[line.fault], shown


def format_of(path: Path) -> tuple[str, str]:
    """(format, compression) by suffix, such as ('.jsonl', '.gz').

    Raises:
        BadInput: a suffix that no reader knows.
    """
    recognised = known_format(path)
    if recognised is None and path.suffix.lower() in DOCUMENTS:
        raise BadInput(
            "missing_package", f"{path}: documents of this kind are read with {DOCUMENTS_EXTRA}"
        )
    if recognised is None:
        raise BadInput(
            "unreadable",
            f"{path}: no reader for this kind of file; use {', '.join(FORMATS)}, "
            f"plain or with {' or '.join(COMPRESSIONS)} behind it",
        )
    return recognised


def known_format(path: Path) -> tuple[str, str] | None:
    """`format_of`, or None if no reader knows the suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else ""
    form = suffixes[-1] if suffixes else ""
    form = _OTHER_NAMES.get(form, form)
    is_readable = form in FORMATS or (form in DOCUMENTS and _reads_documents())
    return (form, compression) if is_readable else None


@cache
def _reads_documents() -> bool:
    return all(util.find_spec(name) for name in ("pypandoc", "pypdfium2"))


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed by its suffix.

    Raises:
        BadInput: the file cannot be opened or read, or its compressed data are damaged.
    """
    _, compression = format_of(path)
    with readable(path), path.open("rb") as file, decompressed(file, compression) as stream:
        yield stream


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns an error of reading the file into one sentence.

    Raises:
        BadInput: the file cannot be opened or read, or its compressed data are damaged.
    """
    try:
        yield
    except (*_DAMAGE, OSError) as error:
        number = getattr(error, "errno", None)
        if number == errno.ENOSPC:  # raised by code in the block that writes
            raise
        if isinstance(error, OSError) and number is not None:
            raise BadInput(
                "unreadable", f"{path} cannot be read: {error.strerror or error}"
            ) from None
        raise BadInput(
            "unreadable", f"{path}: the compressed data are damaged ({error}); fetch it again"
        ) from None


def content_digest(path: Path) -> str:
    """SHA-256, in hex, of the file's bytes. Raises BadInput if it cannot be read."""
    with readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def decompressed(file: BinaryIO, compression: str) -> BinaryIO:
    """The decompressed content of an open file; a truncated file raises at its end."""
    if compression == ".gz":
        return cast(BinaryIO, gzip.open(file, "rb"))
    if compression == ".zst":
        return cast(BinaryIO, pa.CompressedInputStream(file, "zstd"))
    return file


def encoding_of(path: Path) -> str:
    """A text file's encoding, found in its beginning; `utf_8` also if some lines are damaged."""
    with open_bytes(path) as stream:
        beginning = stream.read(_BEGINNING)
    if beginning.startswith(tuple(magic for magic, *_ in _MAGIC)):  # no text
        return "utf_8"
    if 0 in beginning[:_HEAD] and (wide := _guess(beginning)).startswith(("utf-16", "utf-32")):
        return wide
    whole = beginning if len(beginning) < _BEGINNING else beginning.rpartition(b"\n")[0]
    strange = [line for line in whole.split(b"\n") if not line.isascii()]
    if 2 * sum(line.decode(errors="ignore").encode() == line for line in strange) >= len(strange):
        return "utf_8"
    head = whole[:_HEAD].rpartition(b"\n")[0]
    return _guess(head + b"\n" + whole[whole.index(strange[0]) :])


def _guess(sample: bytes) -> str:
    import chardet

    # Cut off an incomplete character at the end, which would count against the encoding.
    sample = sample if len(sample) < _SAMPLE else sample[:_SAMPLE].rpartition(b"\n")[0]
    guess = chardet.detect(sample)["encoding"]
    return "utf_8" if guess is None or guess == "ascii" else codecs.lookup(guess).name


def encoding_in_words(path: Path) -> list[str]:
    """A description of a text file's encoding if it is not UTF-8."""
    form, _ = format_of(path)
    if form == ".parquet" or form in DOCUMENTS or (encoding := encoding_of(path)) == "utf_8":
        return []
    return [f"read as {encoding.replace('_', '-')}, not UTF-8"]


def _damaged(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replaces undecodable bytes by one that is invalid in UTF-8, so that the line is a fault."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return b"\xff", error.end


codecs.register_error("tercet.damaged", _damaged)


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """A text file's content, recoded to UTF-8. Raises BadInput as `open_bytes`."""
    encoding = encoding_of(path)
    with open_bytes(path) as stream:
        if encoding == "utf_8":
            yield stream
        else:
            recoded = codecs.EncodedFile(stream, "utf-8", encoding, "tercet.damaged")
            yield cast(BinaryIO, recoded)


def lines(path: Path, max_bytes: int) -> Iterator[Line]:
    """The lines of a text file in any encoding, numbered from 1, without a byte order mark.

    A line ends in LF, CR LF or CR. A line longer than `max_bytes` has the fault `line_too_long` and
    only its beginning: at most `max_bytes` and a chunk are in memory. A damaged line has the fault
    `not_utf8` and replacement characters.

    Raises:
        BadInput: as `open_bytes`; or the file is not text.
    """
    with open_text(path) as stream:
        for number, (raw, length) in enumerate(_raw_lines(path, stream, max_bytes), 1):
            fault: LineFault = "line_too_long" if length > max_bytes else "not_utf8"
            try:
                yield Line(number, raw.decode("utf-8"), "" if length <= max_bytes else fault)
            except UnicodeDecodeError:
                yield Line(number, raw.decode("utf-8", "replace"), fault)


def _raw_lines(path: Path, stream: BinaryIO, max_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yields (bytes, full length) per line; a line above `max_bytes` is cut to KEPT_OF_LONG."""
    head, length, first = bytearray(), 0, True

    def take(piece: bytes) -> None:
        nonlocal length
        length += len(piece)
        if length <= max_bytes:
            head.extend(piece)
        else:
            head.extend(piece[:KEPT_OF_LONG])
            del head[KEPT_OF_LONG:]

    for chunk in with_line_feeds(stream):
        if first:
            chunk, first = text_start(path, chunk), False
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            take(piece)
            yield bytes(head), length
            head.clear()
            length = 0
        take(pieces[-1])
    if length:
        yield bytes(head), length


def with_line_feeds(stream: BinaryIO) -> Iterator[bytes]:
    """The stream in chunks, each line's end (CR, CR LF, CR CR LF or LF) as a single LF."""
    returns = b""  # at the end of the previous chunk: an LF may follow
    while chunk := stream.read(CHUNK):
        chunk = returns + chunk
        kept = chunk.rstrip(b"\r")
        returns, chunk = chunk[len(kept) :], kept
        if b"\r" in chunk:
            chunk = _RETURNS.sub(b"\n", chunk).replace(b"\r", b"\n")
        yield chunk
    if returns:
        yield b"\n" * len(returns)


def text_start(path: Path, chunk: bytes) -> bytes:
    """The first chunk without UTF-8's byte order mark. Raises BadInput unless it is text."""
    for magic, kind, suffix in _MAGIC:
        if chunk.startswith(magic):
            raise BadInput(
                "unreadable", f"{path} holds {kind}, not text: let its name end in {suffix}"
            )
    if chunk[:4096].count(0) * 4 > len(chunk[:4096]) > 8:
        raise BadInput("unreadable", f"{path} is binary, no text: leave it out")
    return chunk.removeprefix(codecs.BOM_UTF8)
