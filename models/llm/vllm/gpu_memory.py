"""Memory of this machine's GPUs, as the driver reports it: no CUDA library is loaded."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection

# What a driver keeps, and what other programs may have taken meanwhile.
TOLERANCE_MB = 512
_FORMAT = "--format=csv,noheader,nounits"
# A driver that takes longer does not answer.
_ANSWER_SECONDS = 20.0


def used() -> int | None:
    """MB in use on the GPUs that CUDA_VISIBLE_DEVICES names; without it, on all of them.

    On all as well if it names parts of GPUs. None if there is no GPU, or none that reports it.
    """
    rows = _asked("--query-gpu=index,uuid,memory.used")
    wanted = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    mine = [
        row
        for row in rows
        if row[0] in wanted
        or any(word.startswith("GPU-") and row[1].startswith(word) for word in wanted)
    ]
    try:
        return sum(int(row[2]) for row in mine or rows) if rows else None
    except ValueError:
        return None


def held(pids: Collection[int]) -> dict[int, int]:
    """MB that these processes hold, by process id; 0 if the driver does not say how much.

    Processes that hold nothing are left out. In a container the driver may know them by other ids
    or not at all.
    """
    found: dict[int, int] = {}
    for pid, memory in _asked("--query-compute-apps=pid,used_memory", columns=2):
        if pid.isdecimal() and int(pid) in pids:
            found[int(pid)] = found.get(int(pid), 0) + (int(memory) if memory.isdecimal() else 0)
    return found


def awaited(back: Callable[[], bool], seconds: float) -> bool:
    """Waits until memory is free; False if it is not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not back():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _asked(query: str, columns: int = 3) -> list[list[str]]:
    """The driver's rows; none if it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, query, _FORMAT],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == columns]
