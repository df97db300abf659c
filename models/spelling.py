"""The known name that a misspelt one was meant to be."""

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """`; the nearest is 'NAME'` if a known name is like this one, else nothing."""
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f"; the nearest is {alike[0]!r}" if alike else ""
