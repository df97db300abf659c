"""Unicode text made uniform: what is the same to a reader becomes the same string."""

import unicodedata

# Control characters that are not white space, and marks that print nothing and would hide equality.
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
