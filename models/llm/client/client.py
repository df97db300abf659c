"""The client for one or several OpenAI-compatible endpoints.

Threads ask; one event loop in a thread of its own sends. `ask` hands requests over in small batches
as its caller takes answers, so that memory does not grow with their number, while enough of them
wait to keep every endpoint full.
"""

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.exchange import ConnectionPool, Endpoint, RequestError
from tercet.models.llm.client.in_flight import Caller, RequestQueue, Row, Server, Tally, a_word
from tercet.models.llm.client.pace import Pace, backoff
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.wire import Completion, Wire


def silence(servers: Sequence[Server], patience: float, last: str, n_answers: int) -> Stopped:
    """The error when these servers answered nothing for `patience` seconds."""
    names = ", ".join(server.shown for server in servers)
    return Stopped(
        "unreachable",
        f"{names} answered nothing for {patience:g} s (last: {last}); {n_answers} answers of this"
        " run are safe, and the same command continues from there.",
    )


def hopeless(server: Server, rows: int, error: str) -> Stopped:
    """The error when the first rows all failed. error: of the last of them."""
    return Stopped("unreachable", f"{server.shown} answers none of the first {rows} rows: {error}")


# Failures in succession, without an answer, after which an endpoint has to prove that it works.
_DOUBTFUL = 8
# Most seconds between two looks at an endpoint that is down.
_LOOK = 10.0
# Seconds after which it is looked again what may be sent, though nothing was answered.
_TURN = 0.05


class Dispatch:
    """Distributes rows over endpoints; every method but the constructor runs in the loop."""

    def __init__(
        self,
        wire: Wire,
        settings: AskingSettings,
        model: str,
        record: Callable[[Request, Answer], None],
        check: Callable[[], None],
    ) -> None:
        self._wire, self._settings, self._model = wire, settings, model
        self._record, self._check = record, check
        self.servers: list[Server] = []
        self._queue = RequestQueue(settings.list_size)
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_answers = self._n_given_up = self._open = 0
        # Time of the last answer, or of the start of the open work if that was later.
        self._good_at = 0.0
        self._last: str | None = None
        # What `record` raised: nothing more is sent, and open rows are still recorded.
        self._fault: Exception | None = None
        self.stopped: BaseException | None = None

    def start(self, endpoints: Sequence[Endpoint], end: asyncio.Event) -> None:
        """Opens the endpoints; sets `end` when asking has stopped."""
        self._loop, self._end = asyncio.get_running_loop(), end
        asked = self._settings
        for endpoint in endpoints:
            pace = Pace(asked.concurrency, asked.timeout, self._loop.time, random.random)
            pool = ConnectionPool(endpoint, self._settings.key_env)
            self.servers.append(Server(endpoint.shown, pool, pace, self._wire.lists))
        self._tick()

    def submit(self, caller: Caller, rows: list[Row]) -> None:
        """Takes rows; each caller has a queue, and callers take turns."""
        if self.stopped is not None or caller.gone:
            return
        if not self._open:
            self._good_at, self._last = self._loop.time(), None
        self._open += len(rows)
        self._latest = replace(rows[0].request, schema=None)
        caller.open += len(rows)
        self._queue.join(caller, rows)
        self._turn()

    def leave(self, caller: Caller) -> None:
        """Drops the caller's open rows."""
        caller.gone = True
        caller.waiting.clear()
        self._open -= caller.open
        caller.open = 0
        if self._fault is None:
            for task in list(caller.tasks):
                task.cancel()

    def stop(self, error: BaseException) -> None:
        """Ends all asking, because of `error`."""
        if self.stopped is not None:
            return
        self.stopped = self._fault or error
        self._end.set()
        for task in self._tasks:
            if task is not asyncio.current_task(self._loop):
                task.cancel()

    async def close(self) -> None:
        """Waits for cancelled tasks and closes the connections."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        for server in self.servers:
            await server.pool.close()

    def _tick(self) -> None:
        self._turn()
        if self.stopped is None:
            self._loop.call_later(_TURN, self._tick)

    def _turn(self) -> None:
        """Sends what may be sent now, or stops."""
        if self.stopped is not None:
            return
        if self._fault is not None:
            if not any(server.open for server in self.servers):
                self.stop(self._fault)
            return
        now = self._loop.time()
        if not self._out_of_patience(now):
            while self._send_one(now):
                pass

    def _out_of_patience(self, now: float) -> bool:
        """Stops if nothing was answered for long and no endpoint answers a probe either."""
        patience = self._settings.patience
        left = [server for server in self.servers if server.out is None]
        if not self._last and not any(map(Server.is_under_way, left)):
            self._last = "it asked for a pause"
        if not self._open or self._last is None or now - self._good_at < patience:
            return False
        unproved = [server for server in left if server.failed_at < self._good_at]
        for server in unproved:
            self._doubt(server, down=False)
        if not unproved:
            self.stop(silence(left, patience, self._last, self._n_answers))
        return not unproved

    def _send_one(self, now: float) -> bool:
        n_asked = sum(server.is_asked() for server in self.servers)
        for server in sorted(self.servers, key=Server.room, reverse=True):
            if rows := self._queue.take(server, n_asked > 1, now):
                for row in rows:
                    row.attempts += 1
                    row.first_sent = row.first_sent or now
                server.takes(len(rows))
                task = self._start(self._ask(server, rows, now))
                rows[0].caller.tasks.add(task)
                task.add_done_callback(rows[0].caller.tasks.discard)
                return True
        return False

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, server: Server, rows: list[Row], sent_at: float) -> None:
        try:
            try:
                texts, timeout = [row.text for row in rows], self._settings.timeout
                said = await server.pool.exchange(self._wire, rows[0].request, texts, timeout)
            except RequestError as error:
                if self._fault is None:
                    self._judge(server, rows, error, sent_at)
            else:
                self._answered(server, rows, said)
        except Exception as fault:
            self.stop(fault)
        finally:
            server.open -= len(rows)
            # After a cancellation, whoever cancelled is still at work.
            self._loop.call_soon(self._turn)

    def _answered(self, server: Server, rows: list[Row], said: list[Completion]) -> None:
        told = [(row, one) for row, one in zip(rows, said, strict=True) if not one.lacks]
        server.has_answered(len(rows), len(told))
        self._well(server)
        self._n_answers += len(rows)
        if told:
            self._deliver(server, [row for row, _ in told], [one for _, one in told], None)
        for row, one in [pair for pair in zip(rows, said, strict=True) if pair[1].lacks]:
            row.faults += 1
            server.brought_none(1, one.lacks)
            # Where the room for an answer was spent, more tries would spend it again.
            spent = one.finish_reason == "length"
            if self._fault is None and not spent and row.faults < self._settings.tries:
                self._alone([row])
            else:
                error = RequestError("erred", one.lacks).after(row.faults)
                failed = replace(one, raw="", finish_reason="failed")
                self._deliver(server, [row], [failed], error)

    def _well(self, server: Server) -> None:
        server.is_well()
        self._good_at, self._last = self._loop.time(), None

    def _deliver(
        self, server: Server, rows: list[Row], said: list[Completion], error: str | None
    ) -> None:
        """Records the rows' answers, and gives them to their caller. error: why they failed."""
        answers: list[Answer] = []
        for row, one in zip(rows, said, strict=True):
            answer = Answer(
                place=row.request.place,
                digest=row.request.digest,
                model=self._model,
                raw=one.raw,
                finish_reason=one.finish_reason,
                prompt_tokens=one.prompt_tokens,
                n_tokens=one.n_tokens,
                attempts=row.attempts,
                seconds=self._loop.time() - row.first_sent,
                endpoint=server.shown,
                error=error,
            )
            answers.append(answer)
            try:
                self._record(row.request, answer)
            except Exception as fault:
                # Nothing new is sent. What is open is paid for, even what follows the answer that
                # reaches a ceiling, and still recorded.
                self._fault = self._fault or fault
        if self._fault is not None:
            for other in self.servers:
                if other.probe is not None:
                    other.probe.cancel()
            return
        caller = rows[0].caller
        if not caller.gone:
            caller.open -= len(rows)
            self._open -= len(rows)
            caller.answers.put(answers)

    def _judge(self, server: Server, rows: list[Row], error: RequestError, sent_at: float) -> None:
        """Finds out whose fault it was, and asks again or gives up."""
        if error.kind in ("refused", "withheld", "miscounted"):
            # The endpoint works, but rejects these rows, or this form of them.
            server.pace.answered(len(rows))
            self._well(server)
            if error.kind == "refused":
                self._refused(server, rows, error)
            elif len(rows) == 1:
                self._fail(server, rows[0], str(error))
            else:
                server.lists = server.lists and error.kind != "miscounted"
                self._alone(rows)
            return
        self._last = f"{server.shown}: {error}"
        if error.kind == "busy":
            self._busy(server, rows, error, sent_at)
            return
        server.brought_none(len(rows), str(error))
        if error.kind == "down":
            for row in rows:
                row.attempts -= 1
            self._queue.back(rows)
            if error.unusable is not None and not server.has_spoken():
                self._leave_out(server, error.unusable)
            else:
                server.failed_at = self._loop.time()
                self._doubt(server, down=True)
        else:
            server.pace.erred(sent_at)
            server.failures += 1
            self._erred(server, rows, error)
            if server.failures >= _DOUBTFUL:
                self._doubt(server, down=False)

    def _refused(self, server: Server, rows: list[Row], error: RequestError) -> None:
        """Finds out whether the endpoint refuses these rows or everything."""
        if server.out is None and (unusable := server.refuses_all(rows, error)) is not None:
            self._leave_out(server, unusable)
        row = rows[0]
        if server.out is not None:
            self._queue.back(rows)
        elif len(rows) > 1:
            self._alone(rows)
        elif server.held or not server.has_spoken():
            # A probe tells which.
            self._alone(rows)
            self._doubt(server, down=False, like=row.request)
        elif row.refused_by is None and sum(map(Server.is_asked, self.servers)) > 1:
            row.refused_by = server
            self._alone(rows)
        else:
            self._fail(server, row, str(error))

    def _leave_out(self, server: Server, why: Unusable) -> None:
        """Drops the endpoint. Raises Unusable if none is left."""
        server.out = why
        if all(other.out is not None for other in self.servers):
            raise Unusable("lost", " ".join(str(other.out) for other in self.servers))

    def _busy(self, server: Server, rows: list[Row], error: RequestError, sent_at: float) -> None:
        """The endpoint is busy, or always claims to be for one row."""
        row, again = rows[0], any(one.pushes for one in rows)
        known = len(rows) == 1 and row.faults >= self._settings.tries
        if to_blame := server.push_back(rows) or known:
            row.faults += 1
            server.pace.erred(sent_at)
        else:
            server.pace.pushed_back(sent_at, error.pause)
        if len(rows) > 1 and again:
            self._alone(rows, 1)
        elif len(rows) > 1:
            self._queue.back(rows)
        elif row.faults >= self._settings.tries:
            self._give_up(server, row, error)
        else:
            pause = (error.pause or 0.0) if to_blame else 0.0
            wait = max(backoff(1 + row.faults, random.random()), pause)
            self._queue.alone(row, self._loop.time() + wait)
            server.busy_for.add(row)
            # With nothing else to ask, a probe tells whether it is busy.
            if again and not to_blame and server.open == 1 and self._queue.are_empty():
                self._doubt(server, down=False)

    def _erred(self, server: Server, rows: list[Row], error: RequestError) -> None:
        """Asks the rows one by one, which shows whose fault it was."""
        if len(rows) > 1:
            self._alone(rows, 1)
            return
        row = rows[0]
        row.faults += 1
        server.blamed.append(row)
        tries = self._settings.tries
        if row.faults >= max(1, tries - 1) and not any(map(Server.has_spoken, self.servers)):
            self._doubt(server, down=False)
        if row.faults < tries or server.held:
            self._alone(rows, min(row.faults, tries))
        else:
            self._give_up(server, row, error)

    def _give_up(self, server: Server, row: Row, error: RequestError) -> None:
        said = error.after(self._settings.tries)
        self._fail(server, row, said)
        self._n_given_up += 1
        if not self._n_answers and self._n_given_up == _DOUBTFUL:
            self.stop(hopeless(server, _DOUBTFUL, said))

    def _fail(self, server: Server, row: Row, error: str) -> None:
        self._deliver(server, [row], [Completion("", "failed", 0, 0)], error)

    def _alone(self, rows: list[Row], tried: int = 0) -> None:
        """Asks each row by itself, after a pause that grows with the tries."""
        now = self._loop.time()
        for row in rows:
            self._queue.alone(row, now + (backoff(tried, random.random()) if tried else 0.0))

    def _doubt(self, server: Server, down: bool, like: Request | None = None) -> None:
        """Sends nothing more to the endpoint until a probe shows that it answers at all.

        like: the request that the probe resembles; default: the latest, without its schema.
        """
        if down:
            self._check()
        if server.is_asked():
            server.held = True
            server.probe = self._start(self._prove(server, down, like or self._latest))

    async def _prove(self, server: Server, down: bool, like: Request) -> None:
        word = a_word(like)
        seconds = min(self._settings.timeout, self._settings.patience)
        try:
            for tried in itertools.count(1):
                error: RequestError | None = None
                try:
                    if down:
                        await asyncio.sleep(backoff(tried, random.random(), most=_LOOK))
                        await server.pool.reach()
                    else:
                        texts = self._wire.texts([word])
                        await server.pool.exchange(self._wire, word, texts, seconds)
                except RequestError as raised:
                    error = raised
                if error is None or error.kind not in ("down", "erred"):
                    break
                self._last, server.failed_at = f"{server.shown}: {error}", self._loop.time()
                # The endpoint itself fails: no row was at fault.
                for row in server.blamed:
                    row.faults = 0
                self._loop.call_soon(self._turn)
                if error.kind == "down":
                    down = True
                    self._check()
                else:
                    await asyncio.sleep(backoff(tried, random.random(), most=_LOOK))
            server.held = False
            if down:
                server.pace.restart()
                server.failed_at = float("-inf")
            elif error is not None and error.kind == "busy":
                self._last, server.failed_at = f"{server.shown}: {error}", self._loop.time()
                server.pace.pushed_back(server.failed_at, error.pause)
            elif error is not None and (unusable := server.refuses_words(error)) is not None:
                self._leave_out(server, unusable)
            else:
                server.has_proved()
                self._well(server)
            server.failures = 0
            server.blamed.clear()
        except Exception as fault:
            self.stop(fault)
        finally:
            self._loop.call_soon(self._turn)


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
                raise self._dispatch.stopped or Stopped("lost", "The client was closed.")
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
        self._dispatch.stop(error or Stopped("lost", "The client was closed."))
        with self._lock:
            self._ended = True
            stopped = self._dispatch.stopped
            for caller in self._callers:
                caller.answers.put(stopped or Stopped("lost", "The client was closed."))
        await self._dispatch.close()
