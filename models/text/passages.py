"""A passage and its context: the title and the headings above it."""

_BETWEEN = " > "


def passage_text(context: str, text: str) -> str:
    """What an encoder reads of a passage."""
    return f"{context}\n{text}" if context else text


def context_of(names: list[str]) -> str:
    """The title and the headings above a passage, from the outermost on, as one line."""
    return _BETWEEN.join(names)


def above(context: str) -> list[str]:
    """The names in a context, from the outermost on."""
    return context.split(_BETWEEN) if context else []
