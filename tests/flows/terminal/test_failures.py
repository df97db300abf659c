"""What a failure or Ctrl-C is to the person at the terminal: one sentence, one exit code."""

import errno
import subprocess
import sys

import pytest
import typer

from tercet.flows.terminal.failures import StageFailed, describe_failure, exit_code
from tercet.models.errors import Stopped, Unusable
from tercet.storage.store import FullDisk, StoreError
from tercet.tasks.stage import BadInput


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadInput("bad_value", "no"), 2),
        (StoreError("bad_value", "no"), 2),
        (Unusable("bad_value", "no"), 2),
        (typer.BadParameter("no"), 2),
        # A kind of StoreError, but one that a person mends by making room: the run can go on.
        (FullDisk("no_space", "no"), 1),
        (StageFailed("no_space", "no"), 1),
        (Stopped("bad_value", "no"), 1),
        (RuntimeError("no"), 1),
        (KeyboardInterrupt(), 130),
        (typer.Abort(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BadInput("bad_value", "a.txt: no\n  such   file"), "a.txt: no such file"),
        (KeyError("x"), "KeyError: 'x' (--debug shows where)"),
        (
            ValueError("404 of http://me:word@host/api"),
            "404 of http://host/api (--debug shows where)",
        ),
        (typer.BadParameter("must be positive"), "must be positive (tercet --help)"),
    ],
)
def test_one_line_says_what_is_wrong(error: BaseException, line: str) -> None:
    assert describe_failure(error).endswith(line)
    assert "\n" not in describe_failure(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "x"),
        OSError(errno.EDQUOT, "x"),
        RuntimeError("IO Error: No space left on device (os error 28)"),
        OSError("321 requested and 0 written"),
    ],
)
def test_a_full_disk_is_recognised_whoever_met_it(error: Exception) -> None:
    assert "disk is full" in describe_failure(error)
    assert exit_code(error) == 1


GONE = "artifacts/train/0123456789abcdef/files/00000-ab/model.safetensors"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", f"/s/{GONE}"),
        RuntimeError(f'IO Error: No files found that match the pattern "/s/{GONE}"'),
    ],
)
def test_a_file_that_a_collection_took_is_named(error: Exception) -> None:
    assert GONE in describe_failure(error)
    assert "`tercet gc --delete`" in describe_failure(error)


# The signal comes while an object is being deleted: what is raised there is printed and forgotten.
WITHIN_DEL = """
import os, signal
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.progress import LogLines, Reporter
interrupts.listen()
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGNUMBER)
        for _ in range(1000):
            pass
# No time goes by, so that nothing is shown.
show = Reporter([LogLines("rows")], lambda: 0.0)
show(1, 3, "rows")
Dying()
print("went on", flush=True)
try:
    show(2, 3, "rows")
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_python_forgets_is_heard_at_the_next_progress(number: str) -> None:
    words = [sys.executable, "-c", WITHIN_DEL.replace("SIGNUMBER", number)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n") == ["went on", "stopped", ""], done.stderr
    assert done.stderr == ""


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tercet.flows.terminal import interrupts; interrupts.listen()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "True\n"
