"""Who makes the parts of a step: this process, threads of it, or one pool of processes a run."""

import gc
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from tercet.flows.running import gpus
from tercet.flows.running.gpus import Card
from tercet.flows.running.one_part import Part, PartOrder, commit_part
from tercet.flows.running.processes import Child, end, end_with, outcome, start
from tercet.tasks.stage import silent

Progress = Callable[[int, int | None, str], None]

# Concurrent parts of a stage that asks a language model, and seconds between checks on them.
PARTS_AT_ONCE = 3
_GLANCE = 1.0


class Executor(Protocol):
    """Makes and commits the parts of a run's steps, one step at a time."""

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """Makes and commits all of these parts; `show` gets (1, 1, "parts") after each.

        Models that the stage has loaded are freed after the last part.

        Raises the error of the first part that fails; finished parts are kept.
        """

    def close(self) -> None:
        """Frees resources that are held between steps; a later `map` takes them again."""


class Threads:
    """Several parts at once in threads, of a stage that asks a language model.

    A part's last answers arrive while the next part's requests are sent. If a part fails, `cancel`
    stops other parts from waiting for answers.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """Like `Executor.map`, but `show` gets the answers so far, and how many are expected."""
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
                    # Parts that have not started are assumed to ask as much as started parts.
                    expected = sum(total for _, total in counts) * len(parts) // len(counts)
                    show(sum(count for count, _ in counts), expected, "answers")
        except BaseException:
            self._cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Does nothing: no resource outlasts `map`."""


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
    anyway. A single part is made in this process. On GPUs there is one process per card, and a card
    serves one process of the machine at a time.

    say: gets a line when the executor has to wait.
    """

    def __init__(self, workers: int, say: Callable[[str], None] = lambda text: None) -> None:
        self._workers = workers
        self._say = say
        self._children: list[Child] = []

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """Makes the parts in processes; see `Executor.map`."""
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
            # The processes end at once, without finishing their parts.
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
    """Frees models of the last step, also on the GPU, which other processes need now."""
    gc.collect()
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()
