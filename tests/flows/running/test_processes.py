"""Jobs in processes of their own: how many at once, with what, and how they end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from faulty_server import until
from toy_jobs import report

from tercet.flows.running.gpus import Card
from tercet.flows.running.processes import THREADS, Ended, run_jobs

CARDS = [Card("3", "GPU-3"), Card("MIG-7", "MIG-7")]


def test_a_stand_in_for_two_cards_serves_a_job_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs say what they see; threads are shared, and a failure stops no other."""
    monkeypatch.setenv(THREADS, "6")
    jobs = [(report, (does,)) for does in ("a", "fail", "b", "die")]
    heard: list[list[Any]] = [[], [], [], []]
    for place, what in run_jobs(jobs, 2, CARDS):
        heard[place].append(what)
    assert {heard[place][0][0] for place in (0, 1)} == {"3", "MIG-7"}
    assert {seen[0][1] for seen in heard} == {"3"}
    assert (heard[0][1], heard[2][1]) == (Ended("a"), Ended("b"))
    assert str(heard[1][1].error) == "the job is bad"
    assert "killed" in str(heard[3][1].error)
    assert os.environ[THREADS] == "6"


def test_closed_it_ends_what_runs_and_begins_nothing_more() -> None:
    jobs = run_jobs([(report, ("wait",))] * 3, 2, ())
    pids = [heard[2] for _, heard in (next(jobs), next(jobs))]
    jobs.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(StopIteration):
        next(jobs)


GOES_ON = """
from toy_jobs import report
from tercet.flows.running.processes import run_jobs
for _, heard in run_jobs([(report, ("wait",))] * 2, 2, ()):
    print(heard[2], flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_job_outlives_the_process_that_was_killed_or_interrupted(number: int) -> None:
    support = Path(__file__).parents[2] / "support"
    parent = subprocess.Popen(
        [sys.executable, "-c", GOES_ON],
        env={**os.environ, "PYTHONPATH": str(support)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(number)
    parent.communicate()
    assert until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
