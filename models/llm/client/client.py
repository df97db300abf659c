"""The client for one or several OpenAI-compatible endpoints.

Threads ask; one event loop in a thread of its own sends. Each row is a task there: it waits until
an endpoint has room, is sent, and after a failure finds out whose fault that was. `ask` hands rows
over as its caller takes answers, so that memory does not grow with their number, while enough of
them wait to keep every endpoint full.
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

# Rows that are handed over at once, and the most that wait for room beyond those in flight.
_BATCH, _WAITING = 16, 1024
# Rows given up, or refused in succession, without any answer, that show an endpoint to be useless.
_HOPELESS = 8
# Rows answered for each one pushed back, above which the row itself is too much.
_ONE_IN = 4
# Most seconds between two looks at an endpoint that does not work.
_LOOK = 10.0
# What an endpoint is asked as a probe.
_WORD = "Say yes."
# What a row brings that failed.
_NOTHING = Completion("", "failed", 0, 0)
_T = TypeVar("_T")


@dataclass
class Tally:
    """What came of the rows that were sent to the endpoint that is `shown` so.

    answered: rows that it answered with a text. fruitless: rows, each time they were sent, that
    brought none by a fault of the endpoint or their own; fault: the last such fault.
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
    """A request that is open.

    attempts: how often it was sent; faults: how many of these failed by what may be its fault.
    pushed: the busy server that sent it back last, with its counts of answers and of rows sent
    back by then. refused_by: the server that refused it.
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

    open: rows in flight. answered, pushed: how many rows it answered and sent back as too busy;
    refused: those refused since it last answered. good_at: when it last answered, failed_at: when
    it last failed a probe. probe: under way, and nothing else is sent. out: why it is not asked
    any more.
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

    def is_asked(self) -> bool:
        """Whether rows are sent to it at all."""
        return self.probe is None and self.out is None

    def room(self, now: float) -> int:
        """How many rows may be sent to it now."""
        if not self.is_asked() or now < self.pace.paused_until:
            return 0
        return max(0, self.pace.limit() - self.open)

    def has_spoken(self) -> bool:
        """Whether it has ever answered anything."""
        return self.good_at > float("-inf")

    def brought_none(self, fault: str) -> None:
        """Counts a row that was sent to it and got no text."""
        self.tally.fruitless += 1
        self.tally.fault = fault

    def refusing(self, error: RequestError) -> Unusable:
        """What the user has to fix where it refuses everything so."""
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
    """Asks for several threads at once, within one set of limits.

    Args:
        endpoints: where to ask; whichever has room takes the next row.
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
        check: Callable[[], None] = lambda: None,
    ) -> None:
        if not endpoints:
            raise ValueError("a client needs an endpoint")
        self._wire, self._settings, self._model = wire, settings, model
        self._record, self._check = record, check
        self._servers = [_Server(endpoint, settings) for endpoint in endpoints]
        total = settings.concurrency * len(endpoints)
        self._window = total + min(total, _WAITING)
        # What follows up to `_lock` is the loop's alone.
        self._waiting: deque[tuple[_Row, asyncio.Future[_Server]]] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open = self._n_answers = self._n_failed = 0
        # Time of the last answer, or of the start of the open work if that was later.
        self._good_at = 0.0
        # The last trouble since then.
        self._last: str | None = None
        # What `record` raised: nothing more is sent, and open rows are still recorded.
        self._fault: Exception | None = None
        self._end = asyncio.Event()
        self._lock = threading.Lock()
        self._stopped: BaseException | None = None
        self._callers: set[_Caller] = set()
        self._loop = asyncio.new_event_loop()
        # Before the thread runs, lest what is asked by then is lost.
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
        """What came of the rows sent to each endpoint since the last call."""
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
            # Afterwards nothing listens, and every caller has been notified.
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
        """Ends all asking, because of this or of what `record` raised before."""
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
        """Drops the caller's open rows; after a fault of `record` they are waited for instead."""
        if self._fault is None:
            for task in caller.tasks:
                task.cancel()

    async def _with_room(self, row: _Row) -> _Server:
        """Waits for room at an endpoint, where one more row is open from then on."""
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
        """Gives what room there is to the rows that wait, first come, first served."""
        if self._fault is not None:
            # What is open is paid for, even what follows the answer that reached a ceiling.
            if not any(server.open for server in self._servers):
                self._end.set()
            return
        now, passed = self._loop.time(), []
        while self._waiting and (free := [one for one in self._servers if one.room(now)]):
            row, ready = self._waiting.popleft()
            if ready.done():
                continue
            # A row that one endpoint refused goes to another, as long as another is asked.
            others = [one for one in self._servers if one.is_asked() and one is not row.refused_by]
            fitting = [one for one in free if one in others] if others else free
            if fitting:
                server = max(fitting, key=lambda one: one.room(now))
                server.open += 1
                ready.set_result(server)
            else:
                passed.append((row, ready))
        self._waiting.extendleft(reversed(passed))

    async def _answer(self, caller: _Caller, row: _Row) -> None:
        """Asks until the row is answered or has failed for good."""
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
            # Where the room for an answer was spent, more tries would spend it again.
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
        """It answered a row or a probe."""
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
        """Records the row's answer, and gives it to its caller. error: why it failed."""
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
        """Finds out whose fault it was. Why the row failed for good; None: it is asked again."""
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
        # If nothing was answered since, a word tells whether the endpoint answers at all.
        if server.good_at <= sent_at and not await self._works(
            server, replace(row.request, schema=None)
        ):
            return None
        row.faults += 1
        return await self._again(row, error)

    async def _again(self, row: _Row, error: RequestError) -> str | None:
        """Waits before the next try, if there is one."""
        if row.faults >= self._settings.tries:
            return error.after(row.faults)
        await asyncio.sleep(backoff(max(1, row.faults)))
        return None

    async def _refused(self, server: _Server, row: _Row, error: RequestError) -> str | None:
        """Finds out whether the endpoint refuses this row or everything."""
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
        if row.refused_by is None and sum(one.is_asked() for one in self._servers) > 1:
            row.refused_by = server
            return None
        return str(error)

    def _drop(self, server: _Server, why: Unusable) -> None:
        """Asks the endpoint no more. Raises Unusable if none is left."""
        server.out = why
        if all(one.out is not None for one in self._servers):
            raise Unusable("lost", " ".join(str(one.out) for one in self._servers))

    async def _busy(
        self, server: _Server, row: _Row, error: RequestError, sent_at: float
    ) -> str | None:
        """The endpoint is busy, or always claims to be for one row.

        It is the row's fault if the endpoint answered many others, and sent few back, since it last
        sent this row back, or if there is nothing else to ask and it answers a word.
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
        # A timer may go off a little early.
        self._loop.call_at(server.pace.paused_until + 0.01, self._turn)

    async def _works(self, server: _Server, like: Request) -> bool:
        """Whether the endpoint answers a word at once. like: what the word resembles."""
        return await asyncio.shield(server.probe or self._hold(server, like))

    def _hold(self, server: _Server, like: Request, down: bool = False) -> "asyncio.Future[bool]":
        """Sends nothing more to the endpoint until it answers a word; down: until it listens.

        Returns whether it does at the first try.
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
        """It failed a probe. Raises Stopped if nobody has answered anything for too long."""
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
        """Asks a word where nothing comes for long, as from one that asks for an hour's pause."""
        patience = self._settings.patience
        while True:
            await asyncio.sleep(min(1.0, patience / 4))
            silent = self._open and self._loop.time() - self._good_at >= patience
            in_flight = any(server.open for server in self._servers)
            if silent and (self._last is not None or not in_flight) and self._fault is None:
                for server in self._servers:
                    if server.is_asked():
                        self._hold(server, self._latest)
