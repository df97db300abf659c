"""Errors of language models that end a run, and the suggestion for a misspelt name."""

import difflib
from collections.abc import Iterable

from tercet.errors import TercetError


class Unusable(TercetError, ValueError):
    """Something that the user must fix (a path, a prompt file, a missing package); exit code 2."""


class Stopped(TercetError):
    """Requests cannot continue (every endpoint fails, or a ceiling is reached); exit code 1.

    The answers received so far are stored, and the same command continues from there.
    """

    exit_code = 1


class CeilingReached(Stopped):
    """The recipe's ceiling on tokens or money is reached: only a person may raise it."""


def suggest(name: str, names: Iterable[str]) -> str:
    """`; the nearest is 'NAME'` if one of the names is similar, else an empty string."""
    alike = difflib.get_close_matches(name, list(names), n=1)
    return f"; the nearest is {alike[0]!r}" if alike else ""
