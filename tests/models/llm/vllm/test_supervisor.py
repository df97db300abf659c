"""The process that ends a server with whoever started it; cheap servers, real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tercet.models.llm.vllm import supervisor

# A server with a child in its group and one in a session of its own, which nobody waits for.
SERVER = """
import os, subprocess, sys, time
inside = subprocess.Popen(["sleep", "300"])
outside = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(os.getpid(), inside.pid, outside.pid, file=sys.stderr, flush=True)
time.sleep(300)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER


# The supervisor with another grace, and another one for haste.
PATIENT = f"""
import sys
sys.path.insert(0, {str(Path(supervisor.__file__).parent)!r})
import supervisor
supervisor.GRACE_SECONDS, supervisor.HASTE_SECONDS = float(sys.argv[1]), float(sys.argv[2])
sys.exit(supervisor.watch(sys.argv[3:]))
"""
# A wait that is not to be waited for.
AGES = 600.0
# Longer than anything takes where nobody waits in vain.
SECONDS = 120.0


def start(
    code: str, grace: float = supervisor.GRACE_SECONDS, haste: float = supervisor.HASTE_SECONDS
) -> "subprocess.Popen[str]":
    program = ["-c", PATIENT, str(grace), str(haste)]
    if (grace, haste) == (supervisor.GRACE_SECONDS, supervisor.HASTE_SECONDS):
        program = [str(Path(supervisor.__file__))]
    return subprocess.Popen(
        [sys.executable, *program, sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def pids(process: "subprocess.Popen[str]") -> list[int]:
    """Of server, child and detached child, once they are there."""
    assert process.stdout is not None
    assert process.stderr is not None
    group = int(process.stdout.readline())
    numbers = [int(pid) for pid in process.stderr.readline().split()]
    assert numbers[0] == group == os.getpgid(numbers[1])
    return numbers


def gone(numbers: list[int]) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not any(alive(pid) for pid in numbers):
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("closes", [True, False])
def test_all_ends_when_standard_input_closes_or_the_supervisor_is_told(closes: bool) -> None:
    # A server that takes long to get as far as its end is not killed before.
    with start(SERVER, haste=AGES) as process:
        numbers = pids(process)
        assert all(map(alive, numbers))
        assert process.stdin is not None
        if closes:
            process.stdin.close()
        else:
            process.terminate()
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        assert not any(map(alive, numbers))


def test_a_server_that_dies_leaves_nothing_and_its_code_is_told() -> None:
    with start(SERVER) as process:
        numbers = pids(process)
        os.kill(numbers[0], signal.SIGKILL)
        assert process.wait(SECONDS) == 128 + signal.SIGKILL
        assert not any(map(alive, numbers))
    with start("raise SystemExit(3)") as process:
        assert process.wait(SECONDS) == 3


def test_haste_comes_before_a_grace_that_was_given() -> None:
    with start(STUBBORN, grace=AGES) as process:
        numbers = pids(process)
        process.terminate()
        time.sleep(supervisor.HASTE_SECONDS + 1)
        assert all(map(alive, numbers))
        assert process.stdin is not None
        began = time.monotonic()
        process.stdin.close()
        assert process.wait(SECONDS) == 128 + signal.SIGKILL
        assert time.monotonic() - began >= supervisor.HASTE_SECONDS
        assert not any(map(alive, numbers))


def test_a_server_that_will_not_end_is_killed_after_the_grace() -> None:
    with start(STUBBORN, grace=3.0) as process:
        numbers = pids(process)
        began = time.monotonic()
        process.terminate()
        assert process.wait(SECONDS) == 128 + signal.SIGKILL
        assert time.monotonic() - began >= 3.0
        assert not any(map(alive, numbers))


def test_the_server_dies_with_a_supervisor_that_is_killed() -> None:
    with start(SERVER) as process:
        numbers = pids(process)
        process.kill()
        process.wait(SECONDS)
        assert gone(numbers[:1])
        # What is left of it only the engine can know: it has the group's number.
        os.killpg(numbers[0], signal.SIGKILL)
        assert gone(numbers[:2])
        os.kill(numbers[2], signal.SIGKILL)


def test_a_parent_that_is_killed_takes_everything_along() -> None:
    code = f"""
import subprocess, sys, time
command = [sys.executable, {str(Path(supervisor.__file__))!r}, sys.executable, "-c", {STUBBORN!r}]
process = subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
print(process.stdout.readline().decode(), end="", flush=True)
time.sleep(300)
"""
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as parent:
        numbers = pids(parent)
        parent.kill()
        assert gone(numbers)
