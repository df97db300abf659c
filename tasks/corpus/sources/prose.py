"""Text made uniform, and cut into paragraphs and sentences."""

import re
import unicodedata

# Control characters that are no white space, and marks that print nothing and would hide equality.
_INVISIBLE = dict.fromkeys(
    [
        *range(0x00, 0x09),
        *range(0x0E, 0x1C),
        *range(0x7F, 0x85),
        *range(0x86, 0xA0),
        0xAD,
        0x200B,
        0x2060,
        0xFEFF,
    ]
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")


def fold(text: str) -> str:
    """The text in Unicode's NFC form, without control characters, white space as single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = text.translate(_INVISIBLE)
    return " ".join(text.split())


def encodable(text: str) -> bool:
    """Whether the text can be written as UTF-8, i.e. holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sentences(paragraph: str) -> list[str]:
    """The sentences of one folded paragraph (blingfire), none of them empty."""
    import blingfire

    if not paragraph:
        return []
    pieces = blingfire.text_to_sentences(paragraph).split("\n")
    return [folded for piece in pieces if (folded := fold(piece))]


def paragraphs(text: str, split: bool) -> list[list[str]]:
    """Sentences by paragraph.

    A text that is no prose (`split` false) is one paragraph of one sentence.
    """
    if not split:
        folded = fold(text)
        return [[folded]] if folded else []
    unified = text.replace("\r\n", "\n")
    found = (sentences(fold(piece)) for piece in _BLANK_LINE.split(unified))
    return [paragraph for paragraph in found if paragraph]
