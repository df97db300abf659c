"""Text cut into paragraphs and sentences."""

import re

from tercet.models.text.words import fold

# Marks that close what a sentence in Chinese or Japanese ends.
_CLOSING = re.compile("[”’」』）】》〉]+")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")


def sentences(paragraph: str) -> list[str]:
    """The sentences of one folded paragraph (blingfire), none of them empty."""
    import blingfire

    if not paragraph:
        return []
    found: list[str] = []
    for piece in blingfire.text_to_sentences(paragraph).split("\n"):
        closing = _CLOSING.match(piece)
        if closing and found and found[-1][-1] in "。！？…":
            found[-1] += closing[0]
            piece = piece[closing.end() :]
        found += filter(None, [fold(piece)])
    return found


def paragraphs(text: str, split: bool) -> list[list[str]]:
    """Sentences by paragraph.

    Without `split` the text is one paragraph of one sentence.
    """
    if not split:
        folded = fold(text)
        return [[folded]] if folded else []
    unified = text.replace("\r\n", "\n")
    found = (sentences(fold(piece)) for piece in _BLANK_LINE.split(unified))
    return [paragraph for paragraph in found if paragraph]
