"""The client for one or several OpenAI-compatible endpoints.

Threads ask; one event loop in a thread of its own sends. `ask` hands requests over in small batches
as its caller takes answers, so that memory does not grow with their number, while enough of them
wait to keep every endpoint full.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tercet.models.errors import Stopped
from tercet.models.llm.client.dispatch import Dispatch
from tercet.models.llm.client.exchange import Endpoint
from tercet.models.llm.client.in_flight import Caller, Row, Tally
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.wire import Wire

__all__ = ["Client", "Endpoint"]

# Most requests that wait for room beyond those in flight.
_WAITING = 1024


def nothing() -> None:
    """No engine of ours that could have died."""


class Client:
    """Asks for several threads at once, within one set of limits.

    Args:
        endpoints: where to ask; whichever has room takes the next rows.
        wire: how requests look.
        settings: limits, tries and times.
        model: the model's name in `Answer.model`.
        record: called with each answer, failed ones too, before anything else sees it, in the
            client's thread. If it raises, all asking ends once open rows have been answered and
            recorded, and `ask` raises the same.
        check: called when an endpoint does not listen; if it raises, all asking ends too.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        wire: Wire,
        settings: AskingSettings,
        model: str,
        record: Callable[[Request, Answer], None],
        check: Callable[[], None] = nothing,
    ) -> None:
        if not endpoints:
            raise ValueError("a client needs an endpoint")
        self._endpoints, self._wire = tuple(endpoints), wire
        self._batch = settings.list_size
        total = settings.concurrency * len(self._endpoints)
        self._window = total + min(total, _WAITING) + self._batch
        self._dispatch = Dispatch(wire, settings, model, record, check)
        self._callers: set[Caller] = set()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ended = False
        # The first thing that the loop does, however early somebody asks.
        self._serving = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, name="tercet-llm", daemon=True)
        self._thread.start()

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """The answers as they arrive, exactly one per request.

        A row that failed for good is an answer with an `error`. Requests are taken as room is
        made. If the caller stops taking answers, its open rows are cancelled.

        Raises:
            Stopped: no endpoint answers, or the client was closed.
            Unusable: an endpoint refuses for a reason that the user has to fix.
        """
        caller = self._join()
        source = iter(requests)
        n_open, more = 0, True
        try:
            while more or n_open:
                while more and n_open < self._window:
                    batch = list(islice(source, self._batch))
                    more = len(batch) == self._batch
                    if not batch:
                        break
                    n_open += len(batch)
                    self._submit(caller, batch)
                    if not caller.answers.empty():
                        break
                if n_open:
                    answers = caller.answers.get()
                    if isinstance(answers, BaseException):
                        raise answers
                    for answer in answers:
                        n_open -= 1
                        yield answer
        finally:
            self._leave(caller)

    def tallies(self) -> list[Tally]:
        """What came of the rows sent to each endpoint since the last call."""
        return [server.take_tally() for server in self._dispatch.servers]

    def close(self) -> None:
        """Cancels open rows and ends the thread; a second call does nothing."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._loop.call_soon_threadsafe(self._end.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _join(self) -> Caller:
        caller = Caller()
        with self._lock:
            if self._ended or self._dispatch.stopped is not None:
                raise self._dispatch.stopped or Stopped("The client was closed.")
            self._callers.add(caller)
        return caller

    def _submit(self, caller: Caller, requests: list[Request]) -> None:
        texts = self._wire.texts(requests)
        rows = [Row(one, text, caller) for one, text in zip(requests, texts, strict=True)]
        self._call(self._dispatch.submit, caller, rows)

    def _leave(self, caller: Caller) -> None:
        with self._lock:
            self._callers.discard(caller)
        self._call(self._dispatch.leave, caller)

    def _call(self, do: Callable[..., None], *args: object) -> None:
        with self._lock:
            # Afterwards nothing listens, and every caller has been notified.
            if not self._ended:
                self._loop.call_soon_threadsafe(do, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serving)
        finally:
            self._loop.close()

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of ours that broke must not leave callers waiting forever."""
        if "handle" in context and isinstance(context.get("exception"), Exception):
            self._dispatch.stop(context["exception"])
        else:
            loop.default_exception_handler(context)

    async def _serve(self) -> None:
        error: BaseException | None = None
        self._loop.set_exception_handler(self._broken)
        try:
            self._dispatch.start(self._endpoints, self._end)
            await self._end.wait()
        except Exception as fault:
            error = fault
        self._dispatch.stop(error or Stopped("The client was closed."))
        with self._lock:
            self._ended = True
            stopped = self._dispatch.stopped
            for caller in self._callers:
                caller.answers.put(stopped or Stopped("The client was closed."))
        await self._dispatch.close()
