"""Worker processes that share a stage's parts, if a recipe sets `run.workers`.

They are plain processes inside the stage's one Prefect task rather than one task run per part: a
task run costs milliseconds and 18 KB in Prefect's database, and the store records each part anyway.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import active_children, get_context

from tercet.flows.running.one_part import Part, PartOrder, commit_part
from tercet.tasks.stage import silent

Progress = Callable[[int, int | None, str], None]

THREADS = "OMP_NUM_THREADS"
# Concurrent parts of a stage that asks a language model, and seconds between checks on them.
PARTS_AT_ONCE = 3
_GLANCE = 1.0


def commit_parts(order: PartOrder, pending: Sequence[Part], workers: int, show: Progress) -> None:
    """Makes and commits all of these parts, one after another or in `workers` processes.

    Raises the error of the first part that fails; finished parts are kept.
    """
    if min(workers, len(pending)) < 2:
        for part in pending:
            commit_part(order, part, show)
        return
    quiet = replace(order, resources=replace(order.resources, progress=silent))
    with _threads_shared(workers), _deaf_children():
        pool = ProcessPoolExecutor(
            min(workers, len(pending)), get_context("spawn"), _begin, (quiet, os.getpid())
        )
        # The children start here, one per submit until there are enough.
        open_parts = {pool.submit(_commit, part) for part in pending}
    try:
        with _ended_on_interrupt():
            while open_parts:
                done, open_parts = wait(open_parts, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    show(1, 1, "parts")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def commit_asking_parts(
    order: PartOrder, pending: Sequence[Part], cancel: Callable[[], None]
) -> None:
    """Makes and commits parts of a stage that asks a language model.

    Several run at once in threads, so that the next part's requests are sent while the last
    answers of one part arrive. If a part fails, `cancel` stops the others' waiting for answers.

    Raises the error of the first part that fails; finished parts are kept.
    """
    answers: dict[int, tuple[int, int]] = {}
    pool = ThreadPoolExecutor(min(PARTS_AT_ONCE, max(len(pending), 1)), "asking")
    open_parts = {
        pool.submit(commit_part, order, part, _noted(answers, part.index)) for part in pending
    }
    try:
        while open_parts:
            done, open_parts = wait(open_parts, _GLANCE, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            if answers:
                counts = list(answers.values())
                # Parts that have not started are assumed to ask as much as the others.
                expected = sum(total for _, total in counts) * len(pending) // len(counts)
                order.resources.progress(sum(count for count, _ in counts), expected, "answers")
    except BaseException:
        cancel()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _noted(answers: dict[int, tuple[int, int]], index: int) -> Progress:
    """Progress of one part: answers received, and answers expected in total."""

    def note(done: int, total: int | None, unit: str) -> None:
        if unit == "answers" and total is not None:
            answers[index] = (done, total)

    return note


@contextmanager
def _threads_shared(workers: int) -> Iterator[None]:
    """Divides the cores among children: two that use all of them slow each other several-fold."""
    before = os.environ.get(THREADS)
    if before is None:
        os.environ[THREADS] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Makes children ignore Ctrl-C, which reaches the whole process group."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ended_on_interrupt() -> Iterator[None]:
    """On Ctrl-C, ends the children without waiting for the parts that they are making."""
    try:
        yield
    except KeyboardInterrupt:
        for child in active_children():
            child.terminate()
        raise


# The data shared by all parts of a child's pool: sent once per child, not per part.
_order: list[PartOrder] = []


def _begin(order: PartOrder, parent: int) -> None:
    """Takes the order, and ends the child if its parent is killed, lest it wait for ever."""
    _order.append(order)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _commit(part: Part) -> None:
    commit_part(_order[0], part, silent)
