"""Where words begin and end, in scripts that part them by spaces."""

# Scripts from here on are written without spaces, or with words grown together.
_WITHOUT_WORDS = "\u0590"


def inside(text: str, place: int) -> bool:
    """Whether a word goes on over this place of the text; never in scripts without spaces."""
    if not 0 < place < len(text):
        return False
    around = text[place - 1 : place + 1]
    return max(around) < _WITHOUT_WORDS and all(c.isalnum() or c == "_" for c in around)
