"""Ctrl-C, also where Python drops the exception that it raises."""

import subprocess
import sys
import threading

import pytest

from tercet.flows.terminal import interrupts
from tercet.flows.terminal.progress import LogLines, Reporter

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
def test_an_interrupt_that_python_forgets_is_heard_at_the_next_progress(number):
    words = [sys.executable, "-c", WITHIN_DEL.replace("SIGNUMBER", number)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n") == ["went on", "stopped", ""], done.stderr
    assert done.stderr == ""


def test_only_the_main_thread_is_interrupted(monkeypatch):
    asked = threading.Event()
    asked.set()
    monkeypatch.setattr(interrupts, "_asked", asked)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            Reporter([LogLines("rows")])(1, 2, "rows")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised == []
    with pytest.raises(KeyboardInterrupt):
        Reporter([LogLines("rows")])(1, 2, "rows")


def test_an_ignored_ctrl_c_stays_ignored():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tercet.flows.terminal import interrupts; interrupts.listen()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "True\n"
