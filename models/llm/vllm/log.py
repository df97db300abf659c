"""A server's log: extracts why the server failed, and limits the size of the file."""

import re
from pathlib import Path

# The "(EngineCore pid=7) ERROR 11-21 16:18:24 [core.py:15] " before a message.
_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+\)\s*)?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?)?"
)
# The last line of a traceback, or an error of argparse.
_FAULT = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Failure)\b.*?: \S|.*\berror: |pydantic_core.*Error)"
)
# Lines that only repeat the error of another process.
_HEARSAY = re.compile(
    r"see (?:root cause|stack trace)|SystemExit|Engine core (?:proc )?.*(?:died|failed)"
    r"|WorkerProc initialization failed|EngineDeadError|RuntimeError: cancelled$",
    re.IGNORECASE,
)
# Lines that every server prints, and lines that an interpreter prints at its end.
_NOISE = re.compile(
    r"^(?:\([^)]*pid=\d+\)\s*)?INFO\b|^\s*$|^ - |nanobind|\w*Warning: |^\s*warnings\.warn\("
)
_MANY = "validation error"
_TAIL_BYTES = 400_000
_LONGEST = 300
# A larger log is cut to a quarter of this size.
MOST_BYTES = 8 * 2**20


def telling_lines(log: Path, since: int = 0, count: int = 3) -> list[str]:
    """At most `count` lines that tell why the server ended: its errors, in the order of the log.

    Without an error, lines that repeat one of another process, else the last lines that are not
    noise. since: offset in the file to begin at, in bytes.
    """
    messages = [line for line in _tail(log, since) if not _NOISE.search(line)]
    lines = [_PREFIX.sub("", line).rstrip() for line in messages]
    faults: list[str] = []
    for index, line in enumerate(lines):
        if _FAULT.match(line) and not _HEARSAY.search(line):
            if _MANY in line:
                # pydantic's first line counts the errors; the lines below describe them.
                line = " ".join(map(str.strip, lines[index + 1 : index + 3]))
                line = re.sub(r"\s*\[type=.*|Value error, ", "", line)
            if line not in faults:
                faults.append(line)
    if not faults:
        echoes = [line for line in lines if _FAULT.match(line)]
        faults = list(dict.fromkeys(echoes)) or lines[-count:]
    return [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in faults[:count]]


def cut(log: Path) -> bool:
    """Cuts a log of more than MOST_BYTES to its last quarter of that; returns whether it did.

    The writer must have opened the log for appending; lines written meanwhile may be lost.
    """
    try:
        with log.open("r+b") as file:
            if file.seek(0, 2) <= MOST_BYTES:
                return False
            file.seek(-MOST_BYTES // 4, 2)
            rest = file.read().partition(b"\n")[2]
            file.truncate(0)
            file.seek(0)
            file.write(b"[earlier lines were cut]\n" + rest)
    except OSError:
        return False
    return True


def _tail(log: Path, since: int) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since, size - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
