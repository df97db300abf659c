"""Several processes that share a stage's parts, where a recipe asks for `run.workers`.

They are plain processes inside the stage's one Prefect task, not a task run a part: a task run
costs milliseconds and 18 KB of Prefect's database, and the store already knows what each part did.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context

from tercet.flows.part_worker import Part, PartOrder, commit_part
from tercet.tasks.stage import silent

Progress = Callable[[int, int | None, str], None]

THREADS = "OMP_NUM_THREADS"


def commit_parts(order: PartOrder, pending: Sequence[Part], workers: int, show: Progress) -> None:
    """Makes and commits all of these parts, one after another or in `workers` processes.

    Raises what the first failing part raised; parts that are done by then stay.
    """
    if min(workers, len(pending)) < 2:
        for part in pending:
            commit_part(order, part, show)
        return
    quiet = replace(order, resources=replace(order.resources, progress=silent))
    with _threads_shared(workers):
        pool = ProcessPoolExecutor(
            min(workers, len(pending)), get_context("spawn"), _leave_with_parent, (os.getpid(),)
        )
        try:
            open_parts = {pool.submit(commit_part, quiet, part, silent) for part in pending}
            while open_parts:
                done, open_parts = wait(open_parts, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    show(1, 1, "parts")
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _threads_shared(workers: int) -> Iterator[None]:
    """Children share the cores: two that spin on all of them slow each other several-fold."""
    before = os.environ.get(THREADS)
    if before is None:
        os.environ[THREADS] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]


def _leave_with_parent(parent: int) -> None:
    """A child whose parent was killed would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
