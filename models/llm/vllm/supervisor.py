"""The process between Tercet and its vLLM server, which ends the server whenever Tercet ends.

Run as `python supervisor.py COMMAND …` with vLLM's interpreter, whose environment has no Tercet, so
it uses the standard library only. Its standard input is a pipe that Tercet holds. When the pipe
closes, because Tercet is in a hurry or was killed, the server and its processes are ended at once;
on a signal they get more time. The supervisor prints the server's process group in one line, and
redirects the server's output to standard error. It ends with the server and its exit code.
"""

import contextlib
import ctypes
import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

# Seconds that the server has to end by itself after a signal, and after the pipe has closed.
GRACE_SECONDS = 15.0
HASTE_SECONDS = 1.5
# Seconds for its remaining processes to end after they are killed.
KILL_SECONDS = 15.0
LOOK_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    """Calls prctl for this process; does nothing on systems without it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_the_supervisor() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def watch(command: list[str]) -> int:
    """Runs the command until it or standard input ends, and kills all of its processes.

    Returns its exit code, or 128 + n if signal n ended it.
    """
    # Orphans of the server become children of this process.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    parent = os.getppid()
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        start_new_session=True,
        preexec_fn=_die_with_the_supervisor,
    )
    print(server.pid, flush=True)
    alone, end = False, math.inf
    while server.poll() is None and time.monotonic() < end:
        if alone:
            time.sleep(0.02)
        else:
            alone = _hung_up() or os.getppid() != parent
        if alone or signals:
            if end == math.inf:
                server.terminate()
            end = min(end, time.monotonic() + (HASTE_SECONDS if alone else GRACE_SECONDS))
    _end_rest(server)
    code = server.wait()
    return 128 - code if code < 0 else code


def _hung_up() -> bool:
    """Whether standard input has closed; waits up to LOOK_SECONDS for that."""
    return bool(select.select([sys.stdin], [], [], LOOK_SECONDS)[0]) and not os.read(0, 1024)


def _end_rest(server: "subprocess.Popen[bytes]") -> None:
    """Kills the rest of the server's process group and all children of this process."""
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, signal.SIGKILL)
        if server.poll() is not None:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            except ChildProcessError:
                return
        time.sleep(0.02)


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


if __name__ == "__main__":
    raise SystemExit(watch(sys.argv[1:]))
