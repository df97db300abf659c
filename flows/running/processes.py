"""Child processes, which end with this one; each has its share of the threads, and its GPU."""

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, TypeVar

from tercet.flows.running import gpus
from tercet.flows.running.gpus import Card

THREADS = "OMP_NUM_THREADS"
_KILLED = "its process was killed: if memory ran out, lower --at-once or run.workers"

E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True)
class Child:
    """A process, and this process's end of the pipe to it."""

    process: BaseProcess
    connection: Connection


@dataclass(frozen=True)
class Ended:
    """The end of a job: what it returned, or the error with which it failed."""

    value: Any = None
    error: Exception | None = None


def start(
    serve: Callable[[Connection, int], None], count: int, card: Card | None, daemon: bool = True
) -> Child:
    """A process that calls `serve` with its end of the pipe and this process's id.

    count: how many there are at once. card: its GPU. daemon: whether it starts none itself.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    variables = {
        THREADS: str(max(1, _threads() // count)),
        **({gpus.VISIBLE: card.name} if card else {}),
    }
    with _surroundings(variables), _deaf_children(), _without_main():
        process = context.Process(target=serve, args=(theirs, os.getpid()), daemon=daemon)
        process.start()
    theirs.close()
    return Child(process, ours)


def end(children: Iterable[Child], first: Callable[[BaseProcess], None]) -> None:
    """Closes the children's pipes, which ends them, and waits for all."""
    children = list(children)
    for child in children:
        first(child.process)
        child.connection.close()
    for child in children:
        child.process.join()


def end_with(parent: int) -> None:
    """In a child: ends this process when its parent, of this id, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_jobs(
    jobs: Sequence[tuple[Callable[..., Any], Sequence[Any]]], at_once: int, cards: Sequence[Card]
) -> Generator[tuple[int, Any], None, None]:
    """Runs jobs in processes, `at_once` at a time; yields (place of the job, a message of it).

    jobs: functions, which get a function that sends a message, and their arguments. The last
    message of each job is an `Ended`. cards: the GPUs to share out, one per process. Closing the
    generator ends all jobs.
    """
    waiting = deque(enumerate(jobs))
    slots = deque(gpus.assign(cards, at_once))
    running: dict[Connection, tuple[int, Child, Card | None]] = {}
    try:
        while waiting or running:
            while waiting and slots:
                place, job = waiting.popleft()
                card = slots.popleft()
                child = start(_serve_job, at_once, card, daemon=False)
                running[child.connection] = place, child, card
                with suppress(ConnectionError):
                    child.connection.send(job)
            for connection in wait(list(running)):
                assert isinstance(connection, Connection)
                place, child, card = running[connection]
                try:
                    message = connection.recv()
                except (EOFError, ConnectionError):
                    message = Ended(error=RuntimeError(_KILLED))
                if isinstance(message, Ended):
                    del running[connection]
                    slots.append(card)
                    end([child], lambda process: None)
                yield place, message
    finally:
        end([child for _, child, _ in running.values()], lambda process: process.terminate())


def _serve_job(connection: Connection, parent: int) -> None:
    end_with(parent)
    turn = threading.Lock()

    def tell(what: Any) -> None:
        with turn:
            connection.send(what)

    with suppress(EOFError, ConnectionError):
        job, arguments = connection.recv()
        try:
            ended = Ended(job(tell, *arguments))
        except Exception as error:
            ended = Ended(error=sendable(error))
        except KeyboardInterrupt:
            return  # told to end
        tell(ended)


def sendable(error: E) -> E | RuntimeError:
    """The error, with its traceback as a note, in a form that can be sent."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def outcome(call: Callable[..., object], *given: Any) -> BaseException | None:
    """The error with which `call(*given)` failed, in a form that can be sent."""
    try:
        call(*given)
        return None
    except BaseException as error:
        return sendable(error)


def _threads() -> int:
    """The threads that this process may have, which its children share."""
    count_text = os.environ.get(THREADS, "").partition(",")[0]
    return int(count_text) if count_text.isdigit() else os.cpu_count() or 1


@contextmanager
def _surroundings(variables: dict[str, str]) -> Iterator[None]:
    """Sets variables of the environment that a child has from its first import on."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
def _without_main() -> Iterator[None]:
    """Keeps children from importing the user's script, which would start the run again in each."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = before
