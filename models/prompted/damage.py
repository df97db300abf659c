"""Damage in a language model's answers: mended where it is plain what was meant, else found.

Whatever a sentence has itself is no damage in its answer.
"""

import html
import re
from collections.abc import Sequence

from tercet.models.text.unicode import fold

_LINES = re.compile(r"\r\n|\r|\n")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_ESCAPE = re.compile(
    r"""(?:\\+u[0-9a-fA-F]{4})+|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\[nrt"'/\\]"""
)
_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
_LETTERS = {"n": "\n", "r": "\n", "t": " "}
_LOST = "\ufffd"
# UTF-8 that was read as Windows-1252: each of its bytes is a character that is not ASCII.
_RUN = re.compile(r"[^\x00-\x7f]{2,}")
# These follow an accented letter in good texts too: `“café”…`.
_CLOSING = frozenset("“”‘’„‚…–—•™»«›‹·°²³¹\u00a0")


def mended(text: str, source: str) -> tuple[str, bool]:
    """The answer as corpus texts are (`unicode.fold`, line by line), entities of HTML and escapes
    of JSON replaced by what they stand for; and whether characters of it are lost or garbled."""
    if "&" in text and not _ENTITY.search(source):
        # Again and again, since what is escaped twice or more is as common; each makes it shorter.
        while _ENTITY.search(text) and (meant := html.unescape(text)) != text:
            text = meant
    if "\\" in text and "\\" not in source:
        text = _ESCAPE.sub(_meant, text)
    damaged = (_LOST in text and _LOST not in source) or (_garbled(text) and not _garbled(source))
    return "\n".join(fold(line) for line in _LINES.split(text)).strip(), damaged


def all_mended(texts: Sequence[str], sources: Sequence[str]) -> tuple[list[str], list[bool]]:
    """`mended` of each answer and its sentence."""
    found = [mended(text, source) for text, source in zip(texts, sources, strict=True)]
    return [text for text, _ in found], [damaged for _, damaged in found]


def _meant(escape: re.Match[str]) -> str:
    said = escape[0]
    if units := _UNIT.findall(said):
        # Characters beyond the first plane are two escapes; half of one is lost.
        return bytes.fromhex("".join(units)).decode("utf-16-be", "replace")
    if said[1] in "Ux":
        code = int(said[2:], 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else _LOST
    return _LETTERS.get(said[1], said[1])


def _garbled(text: str) -> bool:
    """Whether a run of characters is UTF-8 if each of them is taken for a byte."""
    return not text.isascii() and any(_is_utf8(run) for run in _RUN.findall(text))


def _is_utf8(run: str) -> bool:
    if run[0] not in "ÂÃ" and set(run[1:]) <= _CLOSING:
        return False
    try:
        return len(b"".join(map(_byte, run)).decode()) < len(run)
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def _byte(character: str) -> bytes:
    """In Windows-1252; its five undefined bytes are characters of Latin-1."""
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")
