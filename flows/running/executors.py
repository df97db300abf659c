"""Who makes the parts of a step: this process, threads of it, one pool of processes a run, or the
workers that `run.workers` names.
"""

import gc
import importlib.util
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from tercet.flows.recipe.model import RunSettings
from tercet.flows.running import gpus
from tercet.flows.running.gpus import Card
from tercet.flows.running.one_part import Part, PartOrder, commit_part
from tercet.flows.running.processes import Child, end, end_with, outcome, start
from tercet.models.plugins import with_installed
from tercet.tasks.stage import BadInput, silent

Progress = Callable[[int, int | None, str], None]
Say = Callable[[str], None]

# Concurrent parts of a stage that asks a language model, and seconds between checks on them.
PARTS_AT_ONCE = 3
_GLANCE = 1.0


class Executor(Protocol):
    """Makes and commits the parts of a run's steps, one step at a time."""

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """Makes and commits all of these parts; `show` gets (1, 1, "parts") after each.

        What the stage has loaded for them goes with the last one.

        Raises the error of the first part that fails; finished parts are kept.
        """

    def close(self) -> None:
        """Frees what it holds between two steps; a later `map` takes it again."""


class Threads:
    """Several parts at once in threads, of a stage that asks a language model.

    The next part's requests are sent while the last answers of one arrive. If a part fails,
    `cancel` stops the others' waiting for answers.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """As `Executor.map`; `show` gets the answers so far, and how many are expected."""
        answers: dict[int, tuple[int, int]] = {}
        pool = ThreadPoolExecutor(min(PARTS_AT_ONCE, max(len(parts), 1)), "asking")
        waiting = {
            pool.submit(commit_part, order, part, _noted(answers, part.index)) for part in parts
        }
        try:
            while waiting:
                done, waiting = wait_for_futures(waiting, _GLANCE, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                if answers:
                    counts = list(answers.values())
                    # Parts that have not started are assumed to ask as much as the others.
                    expected = sum(total for _, total in counts) * len(parts) // len(counts)
                    show(sum(count for count, _ in counts), expected, "answers")
        except BaseException:
            self._cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Nothing outlasts `map`."""


def _noted(answers: dict[int, tuple[int, int]], index: int) -> Progress:
    """Progress of one part: answers received, and answers expected in total."""

    def note(done: int, total: int | None, unit: str) -> None:
        if unit == "answers" and total is not None:
            answers[index] = (done, total)

    return note


class Processes:
    """Up to `workers` processes, started for the first step that has several parts.

    They are plain processes inside a step's one Prefect task rather than one task run per part: a
    task run costs milliseconds and 18 KB in Prefect's database, and the store records each part
    anyway. A single part is made in this process. On GPUs there is a process a card, and a card
    serves one process of the machine at a time.

    say: tells what it waits for.
    """

    def __init__(self, workers: int, say: Callable[[str], None] = lambda text: None) -> None:
        self._workers = workers
        self._say = say
        self._children: list[Child] = []

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """As `Executor.map`."""
        cards = gpus.cards() if order.resources.device == "cuda" else ()
        computes = bool(cards) and bool(order.models or order.step.stage.model)
        most = len(cards) if computes else self._workers
        count = max(min(self._workers, len(parts), most), 1)
        waits = f"{order.step.name:<32} "
        used = cards[:count] if computes and parts else ()
        with gpus.turn(used, lambda text: self._say(waits + text)):
            if count > 1:
                self._spread(order, parts, show, count, cards)
                return
            try:
                for part in parts:
                    commit_part(order, part, show)
            finally:
                if used:
                    order.loaded.clear()
                    _free_memory()

    def close(self) -> None:
        """Ends the processes, which finish the parts that they are making."""
        self._end(lambda process: None)

    def _spread(
        self,
        order: PartOrder,
        parts: Sequence[Part],
        show: Progress,
        count: int,
        cards: Sequence[Card],
    ) -> None:
        for card in gpus.assign(cards, count)[len(self._children) :]:
            self._children.append(start(_serve, self._workers, card))
        children = self._children[:count]
        quiet = replace(order, resources=replace(order.resources, progress=silent))
        try:
            for child in children:
                child.connection.send(quiet)
            failed = _share(children, deque(parts), show)
            for child in () if failed else children:
                child.connection.send(None)
        except KeyboardInterrupt:
            # Without waiting for the parts that they are making.
            self._end(BaseProcess.terminate)
            raise
        except (EOFError, ConnectionError) as error:
            self.close()
            raise RuntimeError(
                "a worker process was killed: if memory ran out, lower run.workers"
            ) from error
        except BaseException:
            self.close()
            raise
        if failed:
            self.close()
            raise failed

    def _end(self, first: Callable[[BaseProcess], None]) -> None:
        children, self._children = self._children, []
        end(children, first)


def _share(children: Sequence[Child], parts: deque[Part], show: Progress) -> BaseException | None:
    """Hands the parts out, one at a time to each child, until all are made or one fails.

    Returns the error of that one.
    """
    busy: set[Connection] = set()
    for child in children:
        if parts:
            child.connection.send(parts.popleft())
            busy.add(child.connection)
    while busy:
        for connection in wait(busy):
            assert isinstance(connection, Connection)
            error = connection.recv()
            if isinstance(error, BaseException):
                return error
            if parts:
                connection.send(parts.popleft())
            else:
                busy.discard(connection)
            show(1, 1, "parts")
    return None


def _serve(connection: Connection, parent: int) -> None:
    """A child: takes the order of a step, its parts one by one, and None at the step's end."""

    end_with(parent)
    order: PartOrder | None = None
    with suppress(EOFError, ConnectionError):
        while True:
            message = connection.recv()
            if isinstance(message, Part):
                assert order is not None
                connection.send(outcome(commit_part, order, message, silent))
            else:
                order = message
                _free_memory()


def _free_memory() -> None:
    """Frees what the last step has loaded, on the GPU too, which others need now."""
    gc.collect()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


GROUP = "tercet.executors"
# Seconds that the head of a cluster may take to answer.
_ANSWER = 10.0


def _nothing() -> None:
    """Nothing to check."""


@dataclass(frozen=True)
class Workers:
    """Workers that `run.workers` can name.

    open: what makes the parts of a run with these settings, and tells what its user should know.
    check: raises BadInput where they cannot be had, as far as that shows before a run.
    """

    name: str
    open: Callable[[RunSettings, Say], Executor]
    check: Callable[[], None] = _nothing
    module: str = ""


def find_workers(settings: RunSettings) -> Workers | None:
    """The workers that the recipe names; None for a number of processes. Raises BadInput."""
    if isinstance(settings.workers, int):
        return None
    installed = with_installed(GROUP, (RAY,))
    workers = installed.get(settings.workers)
    if workers is None:
        raise BadInput(
            "unknown_name",
            f"run.workers: there are no workers {settings.workers!r}: give a number of processes, "
            f"or one of {', '.join(sorted(installed))}.",
        )
    workers.check()
    return workers


def open_executor(settings: RunSettings, say: Say) -> Executor:
    """What makes the parts of a run with these settings. Raises BadInput."""
    named = find_workers(settings)
    return Processes(int(settings.workers), say) if named is None else named.open(settings, say)


def check_answer() -> None:
    """Raises BadInput if RAY_ADDRESS is one at which nobody answers.

    Ray itself would ask for minutes, and then end the process.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    host, colon, port = address.rpartition(":")
    if colon:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except (OSError, ValueError):
            raise BadInput(
                "unreachable",
                f"Nothing answers at RAY_ADDRESS ({address}): start the cluster's head with `ray "
                "start --head`, or correct the address.",
            ) from None


def _on_ray(settings: RunSettings, say: Say) -> Executor:
    from tercet.flows.running.ray_workers import RayWorkers

    check_answer()
    return RayWorkers(settings.device, say)


def check_ray() -> None:
    """Raises BadInput where Ray is missing, or RAY_ADDRESS is that of a cluster elsewhere."""
    if importlib.util.find_spec("ray") is None:
        raise BadInput(
            "missing_package", "run.workers: ray needs the package ray: pip install 'tercet[ray]'."
        )
    address = os.environ.get("RAY_ADDRESS", "")
    if "://" in address:
        raise BadInput(
            "bad_value",
            f"RAY_ADDRESS is {address}, but a run has to be inside the cluster: start it there, by "
            "`ray job submit` or on a node, with RAY_ADDRESS=auto.",
        )


RAY = Workers("ray", _on_ray, check_ray)
