"""Texts of others on a terminal, which obeys some characters instead of showing them."""

import re
import sys
from typing import IO, cast

# Controls, marks that print nothing or turn the direction of a line, and halves of characters.
_OBEYED = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff]"
)


def printable(text: str) -> str:
    """The text with such characters escaped; line breaks and tabs stay."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def waits(holder: str) -> None:
    """Says on standard error what a command waits for: the `waiting` of `locks.hold`."""
    print(printable(f"waits for {holder}"), file=sys.stderr, flush=True)


class _Screen:
    """Standard output for bytes of text, where it is a terminal."""

    closed = False

    def write(self, data: bytes) -> int:
        sys.stdout.write(printable(bytes(data).decode("utf-8", "replace")))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def standard_output() -> IO[bytes]:
    """For rows in a format of data: as they are in a pipe, printable on a terminal."""
    return cast("IO[bytes]", _Screen()) if sys.stdout.isatty() else sys.stdout.buffer
