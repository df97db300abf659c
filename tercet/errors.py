"""Foreseen failures: a kind, which programs and tests read, and one sentence, which people read.

The sentences stand in the code that raises them, and together in tests/messages.txt.
"""

from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal[
    "bad_query",  # SQL that cannot be parsed or run
    "bad_row",  # a line or row of a file that lacks what it needs
    "bad_value",  # a value out of range or badly written
    "busy",  # another process uses it, or a port is taken
    "conflict",  # two keys, options or names that exclude each other
    "damaged",  # a file or a model is not what was written, or computes NaN
    "exists",  # a place that is taken
    "gone",  # removed or changed meanwhile
    "limit",  # a ceiling on tokens, money, memory or size
    "lost",  # a server or worker of ours died
    "missing_column",
    "missing_file",  # a file, folder, model or store
    "missing_key",  # a key or option that another one, or the step, needs
    "missing_package",
    "no_effect",  # a key or option that nothing would read
    "no_rows",  # nothing, or too little, to train or measure on
    "no_space",
    "not_reached",  # the run or store has not made it yet
    "not_read_only",  # SQL that could write
    "refused",  # no permission, a wrong login, or a verdict
    "secret",  # a password or key where it would be kept
    "unfit_model",  # a model that cannot do what it is named for
    "unknown_key",
    "unknown_name",  # none of the names that exist
    "unreachable",  # a server, hub or node that does not answer
    "unreadable",  # a file in a form, encoding or state that cannot be read
]


class TercetError(Exception):
    """A foreseen failure: one sentence that says what, where and what to do."""

    exit_code = 2

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message


class InvalidSetting(TercetError, ValueError):
    """A value in a config that pydantic's types let through; its validators raise this."""
