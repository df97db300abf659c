"""The two ways in which a language model fails a run."""

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
