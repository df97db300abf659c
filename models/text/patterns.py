"""Words' ends in scripts that part words by spaces, and thoughts before an answer."""

# Scripts from here on are written without spaces, or with words grown together.
_WITHOUT_WORDS = "\u0590"


def inside(text: str, place: int) -> bool:
    """Whether a word goes on over this place of the text; never in scripts without spaces."""
    if not 0 < place < len(text):
        return False
    around = text[place - 1 : place + 1]
    return max(around) < _WITHOUT_WORDS and all(c.isalnum() or c == "_" for c in around)


# Thoughts of a language model before its answer, as patterns of RE2 and of `re`.
_TAG = r"(?:seed:)?(?:think|thinking|thought|reasoning)>"
_ENDS = rf"</{_TAG}|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
THOUGHTS = rf"(?s)^(?:.*(?:{_ENDS})|analysis.*assistantfinal)"
"""A thought that is marked and comes to an end."""
OPEN_THOUGHT = rf"^\s*(?:<{_TAG}|\[THINK\]|◁think▷|<\|channel\|>analysis)"
