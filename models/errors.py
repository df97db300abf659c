"""The two ways in which a language model fails a run, and the name that a misspelt one meant."""

import difflib
from collections.abc import Iterable

from tercet.errors import TercetError


class Unusable(TercetError, ValueError):
    """Something that the user must fix (a path, a prompt file, a missing package); exit code 2."""


class Stopped(TercetError):
    """Asking cannot continue (an endpoint that only fails, a ceiling); exit code 1.

    Answers so far are safe, and the same command continues from there.
    """

    exit_code = 1


class CeilingReached(Stopped):
    """The recipe's ceiling on tokens or money is reached: only a person may raise it."""


def suggest(name: str, known: Iterable[str]) -> str:
    """`; the nearest is 'NAME'` if a known name is like this one, else nothing."""
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f"; the nearest is {alike[0]!r}" if alike else ""
