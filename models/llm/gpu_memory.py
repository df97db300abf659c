"""Memory of the GPUs of this machine, as the driver tells it: no library of CUDA is loaded."""

import shutil
import subprocess
import time

# What a driver keeps, and what other programs may have come to take.
TOLERANCE_MB = 512
_QUERY = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"]


def used() -> int | None:
    """MB in use on all GPUs together; None where there is no GPU, or none that says so."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, timeout=20, check=True
        )
        return sum(int(line) for line in done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def await_back(before: int, seconds: float) -> int | None:
    """Waits until no more is used than before; MB in use at last, None where nobody can tell."""
    deadline = time.monotonic() + seconds
    while True:
        now = used()
        if now is None or now <= before + TOLERANCE_MB or time.monotonic() > deadline:
            return now
        time.sleep(0.5)
