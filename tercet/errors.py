"""Foreseen failures: a kind, which programs and tests read, and a sentence, which people read.

The sentences stand in the code that raises them, and all together in docs/errors.md.
"""

from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal[
    "bad_query",  # SQL that cannot be parsed or run
    "bad_row",  # a line or row of a file lacks what it needs
    "bad_value",  # a value is out of range, or badly written
    "busy",  # another process uses it, or a port is taken
    "conflict",  # two keys, options or names exclude each other
    "damaged",  # a file or model is not as it was written, or a model computes NaN
    "exists",  # a place is taken
    "gone",  # something was removed or changed meanwhile
    "limit",  # a ceiling on tokens, money, memory or size is reached
    "lost",  # a process of ours died
    "missing_column",  # a table lacks a column
    "missing_file",  # a file, folder, model or store does not exist
    "missing_key",  # a key or option is needed
    "missing_package",  # a Python package is not installed
    "no_effect",  # nothing would read a key or option
    "no_rows",  # too little is left to train or measure on
    "no_space",  # the disk is full
    "not_reached",  # the run or store has not made it yet
    "not_read_only",  # the SQL could write
    "refused",  # a login, a permission or a verdict stands against it
    "secret",  # a password or key stands where it would be kept
    "unfit_model",  # a model cannot do what it is named for
    "unknown_key",  # no recipe has such a key
    "unknown_name",  # none of the existing names
    "unreachable",  # a server, hub or node does not answer
    "unreadable",  # the form, encoding or state of a file cannot be read
]


class TercetError(Exception):
    """A foreseen failure: one sentence that says what, where and what to do."""

    exit_code = 2

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message

    def _render_traceback_(self) -> list[str]:
        """Makes a notebook show the sentence alone."""
        return [f"{type(self).__name__}: {self}"]


def kind_of(error: BaseException | None, otherwise: ErrorKind) -> ErrorKind:
    """The kind of a failure that another one passes on."""
    return error.kind if isinstance(error, TercetError) else otherwise


class InvalidSetting(TercetError, ValueError):
    """A value in a config that pydantic's types let through; its validators raise this."""
