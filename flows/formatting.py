"""Formats times, sizes, figures and foreign texts for people."""

import re
import sys
from typing import IO, cast

LONGEST = 400


def format_duration(seconds: float | None) -> str:
    """`0.4 s`, `2 min 03 s` or `1 h 02 min`; `–` if unknown."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def format_clock(seconds: float) -> str:
    """`0:33`, `12:05` or `3:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_rate(rate: float) -> str:
    """`1,234`, `85`, `3.2` or `0.25`: about two significant digits."""
    if rate >= 10:
        return f"{rate:,.0f}"
    return f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def format_bytes(count: int) -> str:
    """`512 B`, `1.5 KB` or `20.0 GB`."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def count_of(count: int, noun: str) -> str:
    """`1 row` or `1,200 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_number(value: float | None, digits: int = 2, sign: str = "") -> str | None:
    """The number with this many decimals; None stays None. sign: `+` for a difference."""
    return None if value is None else f"{value:{sign}.{digits}f}".replace("-", "−")


def format_range(
    low: float | None, high: float | None, digits: int = 2, sign: str = ""
) -> str | None:
    """Both ends of an interval; None if one is unknown."""
    if low is None or high is None:
        return None
    return f"{low:{sign}.{digits}f} to {high:{sign}.{digits}f}".replace("-", "−")


def shorten(text: str | None, most: int = LONGEST) -> str:
    """The start of the text, with an ellipsis if the rest is left out; empty for None."""
    if text is None:
        return ""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


# Controls, marks that print nothing or turn the direction of a line, and halves of characters.
_UNPRINTABLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff]"
)


def printable(text: str) -> str:
    """The text with unprintable characters escaped; line breaks and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def waits(holder: str) -> None:
    """Prints to standard error whom a command waits for; an argument `waiting` of `locks.hold`."""
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
    """A stream for rows of data: unchanged into a pipe, printable on a terminal."""
    return cast("IO[bytes]", _Screen()) if sys.stdout.isatty() else sys.stdout.buffer
