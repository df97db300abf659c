"""The client for one or several OpenAI-compatible endpoints.

Threads call `ask`; an event loop in a separate thread sends the requests. Each row is a task of the
loop: it waits for room at an endpoint, is sent, and after a failure determines whether the row or
the endpoint is at fault. `ask` submits rows as its caller takes answers, so memory does not grow
with their number, but enough rows wait to keep every endpoint busy.
"""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.exchange import Connections, Endpoint, RequestError
from tercet.models.llm.client.pace import Pace, backoff
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.wire import Completion, Text, Wire

# Rows that are submitted at once, and the most rows that wait for room beside those in flight.
_BATCH, _WAITING = 16, 1024
# An endpoint is useless after this many rows that failed, or were refused in succession, without
# any answer.
_HOPELESS = 8
# A row is at fault if an endpoint answers more than this many rows per row that it pushes back.
_ONE_IN = 4
# Most seconds between two probes of an endpoint that does not work.
_LOOK = 10.0
# The prompt of a probe.
_WORD = "Say yes."
# The completion of a failed row.
_NOTHING = Completion("", "failed", 0, 0)
_T = TypeVar("_T")


@dataclass
class Tally:
    """Counts of the rows that were sent to an endpoint.

    shown: the endpoint's address. answered: rows answered with a text. fruitless: attempts without
    a text, by a fault of the endpoint or the row. fault: the last such fault.
    """

    shown: str
    answered: int = 0
    fruitless: int = 0
    fault: str = ""


class _Caller:
    """One caller of `Client.ask`: the tasks of its open rows, and its answers."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.answers: SimpleQueue[Answer | BaseException] = SimpleQueue()


@dataclass(eq=False, slots=True)
class _Row:
    """An open request.

    attempts: how often it was sent. faults: attempts that failed, perhaps by the row's own fault.
    pushed: the busy server that pushed it back last, with the server's counts of answered and
    pushed rows at that time. refused_by: the server that refused it.
    """

    request: Request
    text: Text
    attempts: int = 0
    faults: int = 0
    first_sent: float = 0.0
    pushed: "tuple[_Server, int, int] | None" = None
    refused_by: "_Server | None" = None


class _Server:
    """The state of an endpoint.

    open: rows in flight. answered, pushed: rows that it answered, and pushed back as too busy.
    refused: rows refused since the last answer. good_at, failed_at: times of the last answer and of
    the last failed probe. probe: the current probe, during which no rows are sent. out: why no more
    rows are sent at all.
    """

    def __init__(self, endpoint: Endpoint, settings: AskingSettings) -> None:
        self.shown = endpoint.shown
        self.connections = Connections(endpoint, settings.key_env)
        self.pace = Pace(settings.concurrency, settings.timeout)
        self.open = self.answered = self.pushed = self.refused = 0
        self.good_at = self.failed_at = float("-inf")
        self.probe: asyncio.Future[bool] | None = None
        self.out: Unusable | None = None
        self.tally = Tally(self.shown)

    def is_used(self) -> bool:
        """Whether rows are sent to this endpoint: no probe is running, and it is not out."""
        return self.probe is None and self.out is None

    def room(self, now: float) -> int:
        """The number of rows that may be sent now."""
        if not self.is_used() or now < self.pace.paused_until:
            return 0
        return max(0, self.pace.limit() - self.open)

    def has_spoken(self) -> bool:
        """Whether the endpoint has ever answered."""
        return self.good_at > float("-inf")

    def brought_none(self, fault: str) -> None:
        """Counts an attempt without a text."""
        self.tally.fruitless += 1
        self.tally.fault = fault

    def refusing(self, error: RequestError) -> Unusable:
        """The error for the user if the endpoint refuses every request."""
        if error.unusable is not None:
            return error.unusable
        if "chat template" in error.detail.lower():
            return Unusable(
                "unfit_model",
                f"The model of {self.shown} has no chat template: set `llm.api: completions`.",
            )
        return Unusable(
            "refused",
            f"The endpoint {self.shown} refuses every request ({error}): correct what it"
            " names in the recipe's `llm`.",
        )


class Client:
    """Sends the requests of several threads, within common limits.

    Args:
        endpoints: the endpoint with the most room gets the next row.
        wire: format of the requests.
        settings: limits, tries and times.
        model: the model's name in `Answer.model`.
        record: called in the client's thread with each answer, including failed ones, before the
            caller gets it. If it raises, open rows are still answered and recorded; then `ask`
            raises the same error in all threads.
        check: called when an endpoint accepts no connection. If it raises, the client stops.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        wire: Wire,
        settings: AskingSettings,
        model: str,
        record: Callable[[Request, Answer], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        if not endpoints:
            raise ValueError("a client needs an endpoint")
        self._wire, self._settings, self._model = wire, settings, model
        self._record, self._check = record, check
        self._servers = [_Server(endpoint, settings) for endpoint in endpoints]
        total = settings.concurrency * len(endpoints)
        self._window = total + min(total, _WAITING)
        # Only the loop's thread uses the attributes up to `_lock`.
        self._waiting: deque[tuple[_Row, asyncio.Future[_Server]]] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open = self._n_answers = self._n_failed = 0
        # Time of the last answer, or of the start of the current work if that was later.
        self._good_at = 0.0
        # The last error since `_good_at`.
        self._last: str | None = None
        # The error of `record`: nothing more is sent, but open rows are still recorded.
        self._fault: Exception | None = None
        self._end = asyncio.Event()
        self._lock = threading.Lock()
        self._stopped: BaseException | None = None
        self._callers: set[_Caller] = set()
        self._loop = asyncio.new_event_loop()
        # Created before the thread runs, so that no call is lost.
        self._serving = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, name="tercet-llm", daemon=True)
        self._thread.start()

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """The answers as they arrive, exactly one per request.

        A row that finally failed is an answer with an `error`. Requests are consumed as there is
        room. If the caller stops taking answers, its open rows are cancelled.

        Raises:
            Stopped: no endpoint answers, or the client was closed.
            Unusable: all endpoints refuse for reasons that the user has to fix.
        """
        caller = _Caller()
        with self._lock:
            if self._stopped is not None:
                raise self._stopped
            self._callers.add(caller)
        source = iter(requests)
        n_open, more = 0, True
        try:
            while more or n_open:
                while more and n_open < self._window and (not n_open or caller.answers.empty()):
                    batch = list(islice(source, _BATCH))
                    more = len(batch) == _BATCH
                    if not batch:
                        break
                    texts = self._wire.texts(batch)
                    rows = [_Row(one, text) for one, text in zip(batch, texts, strict=True)]
                    n_open += len(rows)
                    self._call(self._submit, caller, rows)
                if n_open:
                    answer = caller.answers.get()
                    if isinstance(answer, BaseException):
                        raise answer
                    n_open -= 1
                    yield answer
        finally:
            with self._lock:
                self._callers.discard(caller)
            self._call(self._leave, caller)

    def tallies(self) -> list[Tally]:
        """The counts of each endpoint since the last call."""
        tallies = [server.tally for server in self._servers]
        for server in self._servers:
            server.tally = Tally(server.shown)
        return tallies

    def close(self) -> None:
        """Cancels open rows and ends the thread; a second call does nothing."""
        self._call(self._end.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _call(self, do: Callable[..., None], *args: object) -> None:
        with self._lock:
            # After that the loop has ended, and every caller has been notified.
            if self._stopped is None:
                self._loop.call_soon_threadsafe(do, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serving)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._start(self._watch())
        await self._end.wait()
        with self._lock:
            self._stopped = self._fault or Stopped("lost", "The client was closed.")
            for caller in self._callers:
                caller.answers.put(self._stopped)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            await server.connections.close()

    def _start(self, work: Coroutine[None, None, _T]) -> "asyncio.Task[_T]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(fault := task.exception(), Exception):
            self._stop(fault)

    def _stop(self, fault: Exception) -> None:
        """Ends the client because of this error, or an earlier one of `record`."""
        self._fault = self._fault or fault
        self._end.set()

    def _submit(self, caller: _Caller, rows: Sequence[_Row]) -> None:
        if not self._open:
            self._good_at, self._last = self._loop.time(), None
        self._open += len(rows)
        self._latest = replace(rows[0].request, schema=None)
        for row in rows:
            task = self._start(self._answer(caller, row))
            caller.tasks.add(task)
            task.add_done_callback(partial(self._close_row, caller))

    def _close_row(self, caller: _Caller, task: "asyncio.Task[None]") -> None:
        self._open -= 1
        caller.tasks.discard(task)

    def _leave(self, caller: _Caller) -> None:
        """Cancels the caller's open rows, unless an error of `record` lets them finish."""
        if self._fault is None:
            for task in caller.tasks:
                task.cancel()

    async def _with_room(self, row: _Row) -> _Server:
        """Waits for room at an endpoint, and counts the row as open there."""
        ready: asyncio.Future[_Server] = self._loop.create_future()
        self._waiting.append((row, ready))
        self._turn()
        try:
            return await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                ready.result().open -= 1
                self._turn()
            raise

    def _turn(self) -> None:
        """Assigns waiting rows to endpoints with room, first come, first served."""
        if self._fault is not None:
            # Open rows are paid for, so they are recorded even after a ceiling is reached.
            if not any(server.open for server in self._servers):
                self._end.set()
            return
        now, passed = self._loop.time(), []
        while self._waiting and (free := [one for one in self._servers if one.room(now)]):
            row, ready = self._waiting.popleft()
            if ready.done():
                continue
            # A row that one endpoint refused goes to another one, if there is one.
            others = [one for one in self._servers if one.is_used() and one is not row.refused_by]
            fitting = [one for one in free if one in others] if others else free
            if fitting:
                server = max(fitting, key=lambda one: one.room(now))
                server.open += 1
                ready.set_result(server)
            else:
                passed.append((row, ready))
        self._waiting.extendleft(reversed(passed))

    async def _answer(self, caller: _Caller, row: _Row) -> None:
        """Sends the row until it is answered or has finally failed."""
        failed: str | None = None
        while failed is None:
            server = await self._with_room(row)
            sent_at = self._loop.time()
            try:
                completion = await self._exchange(server, row)
            except RequestError as error:
                completion, failed = _NOTHING, await self._judge(server, row, error, sent_at)
                if self._fault is not None:
                    return
                continue
            if not completion.lacks:
                server.tally.answered += 1
                self._deliver(caller, server, row, completion)
                return
            row.faults += 1
            server.brought_none(completion.lacks)
            # An answer without text that used all of max_tokens would use them all again.
            if (
                completion.finish_reason == "length"
                or row.faults >= self._settings.tries
                or self._fault
            ):
                failed = RequestError("erred", completion.lacks).after(row.faults)
        self._deliver(
            caller, server, row, replace(completion, raw="", finish_reason="failed"), failed
        )
        self._n_failed += 1
        if not self._n_answers and self._n_failed >= _HOPELESS:
            rows = f"{server.shown} answers none of the first {self._n_failed} rows"
            self._stop(Stopped("unreachable", f"{rows}: {failed}"))

    async def _exchange(self, server: _Server, row: _Row) -> Completion:
        sent_at, answered = self._loop.time(), server.answered
        row.attempts += 1
        row.first_sent = row.first_sent or sent_at
        try:
            completion = await server.connections.exchange(
                self._wire, row.request, row.text, self._settings.timeout
            )
        finally:
            server.open -= 1
            self._loop.call_soon(self._turn)
        self._well(server)
        self._n_answers += 1
        server.answered += 1
        server.pace.answered(self._loop.time() - sent_at, server.answered - answered)
        return completion

    def _well(self, server: _Server) -> None:
        """Notes that the endpoint answered a row or a probe."""
        self._good_at = server.good_at = self._loop.time()
        self._last, server.refused = None, 0

    def _deliver(
        self,
        caller: _Caller,
        server: _Server,
        row: _Row,
        completion: Completion,
        error: str | None = None,
    ) -> None:
        """Records the row's answer and passes it to its caller. error: why the row failed."""
        answer = Answer(
            place=row.request.place,
            digest=row.request.digest,
            model=self._model,
            raw=completion.raw,
            finish_reason=completion.finish_reason,
            prompt_tokens=completion.prompt_tokens,
            n_tokens=completion.n_tokens,
            attempts=row.attempts,
            seconds=self._loop.time() - row.first_sent,
            endpoint=server.shown,
            error=error,
        )
        try:
            self._record(row.request, answer)
        except Exception as fault:
            self._fault = self._fault or fault
            self._loop.call_soon(self._turn)
        if self._fault is None:
            caller.answers.put(answer)

    async def _judge(
        self, server: _Server, row: _Row, error: RequestError, sent_at: float
    ) -> str | None:
        """Finds out whether the row or the endpoint is at fault.

        Returns why the row finally failed; None: it is sent again.
        """
        if self._fault is not None or server.out is not None:
            return None
        if error.kind == "withheld":
            self._well(server)
            return str(error)
        if error.kind == "refused":
            return await self._refused(server, row, error)
        self._last = f"{server.shown}: {error}"
        if error.kind == "busy":
            return await self._busy(server, row, error, sent_at)
        server.brought_none(str(error))
        if error.kind == "down":
            row.attempts -= 1
            if error.unusable is not None and not server.has_spoken():
                self._drop(server, error.unusable)
            else:
                self._check()
                self._hold(server, row.request, down=True)
            return None
        if error.kind == "late":
            server.pace.cut(sent_at, self._loop.time())
        # If nothing was answered since, a probe shows whether the endpoint works at all.
        if server.good_at <= sent_at and not await self._works(
            server, replace(row.request, schema=None)
        ):
            return None
        row.faults += 1
        return await self._again(row, error)

    async def _again(self, row: _Row, error: RequestError) -> str | None:
        """Waits before the next try; returns the error if there is none."""
        if row.faults >= self._settings.tries:
            return error.after(row.faults)
        await asyncio.sleep(backoff(max(1, row.faults)))
        return None

    async def _refused(self, server: _Server, row: _Row, error: RequestError) -> str | None:
        """Finds out whether the endpoint refuses this row or every row."""
        self._good_at, self._last = self._loop.time(), None
        if not server.has_spoken():
            if error.unusable is not None:
                self._drop(server, error.unusable)
                return None
            if not await self._works(server, row.request):
                return None
        server.refused += 1
        if server.refused >= _HOPELESS and (error.unusable is not None or not server.answered):
            self._drop(server, server.refusing(error))
            return None
        if row.refused_by is None and sum(one.is_used() for one in self._servers) > 1:
            row.refused_by = server
            return None
        return str(error)

    def _drop(self, server: _Server, why: Unusable) -> None:
        """Stops using the endpoint. Raises Unusable if none is left."""
        server.out = why
        if all(one.out is not None for one in self._servers):
            raise Unusable("lost", " ".join(str(one.out) for one in self._servers))

    async def _busy(
        self, server: _Server, row: _Row, error: RequestError, sent_at: float
    ) -> str | None:
        """Handles a busy endpoint, or a row for which the endpoint always claims to be busy.

        The row is at fault if the endpoint answered many other rows and pushed few back since it
        last pushed this row back, or if there are no other rows and it answers a probe.
        """
        before, to_blame = row.pushed, False
        if before is not None and before[0] is server:
            to_blame = server.answered - before[1] > _ONE_IN * (server.pushed - before[2])
        server.pushed += 1
        row.pushed = server, server.answered, server.pushed
        if before is not None and not (to_blame or server.open or self._waiting):
            to_blame = await self._works(server, replace(row.request, schema=None))
        if to_blame:
            row.faults += 1
        else:
            self._pause(server, sent_at, error)
        return await self._again(row, error)

    def _pause(self, server: _Server, sent_at: float, error: RequestError) -> None:
        now = self._loop.time()
        server.pace.push_back(sent_at, now, error.pause)
        # A timer may fire a little early.
        self._loop.call_at(server.pace.paused_until + 0.01, self._turn)

    async def _works(self, server: _Server, like: Request) -> bool:
        """Whether the endpoint answers a probe at once. like: request that the probe resembles."""
        return await asyncio.shield(server.probe or self._hold(server, like))

    def _hold(self, server: _Server, like: Request, down: bool = False) -> "asyncio.Future[bool]":
        """Sends no rows to the endpoint until it answers a probe; down: until it can be connected.

        Returns whether the first try succeeds.
        """
        if server.probe is None:
            server.probe = self._loop.create_future()
            self._start(self._prove(server, server.probe, like, down))
        return server.probe

    async def _prove(
        self, server: _Server, at_once: "asyncio.Future[bool]", like: Request, down: bool
    ) -> None:
        sampling = like.sampling.model_copy(update={"max_tokens": 1})
        word = replace(like, prompt=_WORD, sampling=sampling, shots=())
        (text,) = self._wire.texts([word])
        seconds = min(self._settings.timeout, self._settings.patience)
        try:
            for tried in itertools.count(1):
                if down or tried > 1:
                    await asyncio.sleep(backoff(tried, most=_LOOK))
                try:
                    if down:
                        await server.connections.reach()
                        server.pace.restart()
                        server.failed_at = float("-inf")
                        return
                    await server.connections.exchange(self._wire, word, text, seconds)
                except RequestError as error:
                    if error.kind == "refused" and (error.unusable or not server.answered):
                        self._drop(server, server.refusing(error))
                        return
                    if error.kind not in ("refused", "withheld"):
                        self._unproved(server, error)
                        if error.kind == "busy":
                            self._pause(server, server.failed_at, error)
                            return
                        down = error.kind == "down"
                        if not at_once.done():
                            at_once.set_result(False)
                        continue
                self._well(server)
                server.pace.resume()
                if not at_once.done():
                    at_once.set_result(True)
                return
        finally:
            if not at_once.done():
                at_once.set_result(False)
            server.probe = None
            self._loop.call_soon(self._turn)

    def _unproved(self, server: _Server, error: RequestError) -> None:
        """Notes a failed probe. Raises Stopped if no endpoint has answered for `patience`."""
        self._last, server.failed_at = f"{server.shown}: {error}", self._loop.time()
        left = [one for one in self._servers if one.out is None]
        silent = server.failed_at - self._good_at >= self._settings.patience
        if self._open and silent and all(one.failed_at >= self._good_at for one in left):
            names = ", ".join(one.shown for one in left)
            raise Stopped(
                "unreachable",
                f"{names} answered nothing for {self._settings.patience:g} s (last: {self._last});"
                f" {self._n_answers} answers of this run are safe, and the same command continues"
                " from there.",
            )
        if error.kind == "down":
            self._check()

    async def _watch(self) -> None:
        """Probes the endpoints after a long silence, such as the pause that one asked for."""
        patience = self._settings.patience
        while True:
            await asyncio.sleep(min(1.0, patience / 4))
            silent = self._open and self._loop.time() - self._good_at >= patience
            in_flight = any(server.open for server in self._servers)
            if silent and (self._last is not None or not in_flight) and self._fault is None:
                for server in self._servers:
                    if server.is_used():
                        self._hold(server, self._latest)
