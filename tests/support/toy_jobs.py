"""A job that says what it sees; processes import it by name, and little else."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def report(tell: Callable[[Any], None], does: str) -> str:
    """Tells its GPU, its threads and its process. does: what then, such as `fail` or `wait`."""
    tell((os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["OMP_NUM_THREADS"], os.getpid()))
    if does == "fail":
        raise ValueError("the job is bad")
    if does == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "wait":
        time.sleep(3600)
    return does
