"""Who is asked what, and when: the side of the client that lives in its event loop."""

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence

from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.exchange import Endpoint, Lanes, Trouble, exchange, reachable
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.pace import Pace, backoff
from tercet.models.llm.settings import AskingSettings, Sampling
from tercet.models.llm.under_way import Asker, Row, Server, alike
from tercet.models.llm.wire import Said, Wire

# Failures in a row, without one answer between, after which an endpoint has to show that it is not
# the endpoint that fails.
_DOUBTFUL = 8
# Rows refused, without one answer ever, after which it is the recipe that is refused.
_REFUSED = 8
# Seconds between two looks at an endpoint that is down, at most.
_LOOK = 10.0
# What a doubtful endpoint is asked: a word.
_WORD = Request(0, "Say yes.", Sampling(temperature=0, max_tokens=1), 0)


class Dispatch:
    """Shares rows out to endpoints; every method but the constructor runs in the loop."""

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
        self._servers: list[Server] = []
        self._askers: deque[Asker] = deque()
        self._again: list[tuple[float, int, Row]] = []
        self._number = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._n_answers = self._n_refused = self._open = 0
        # The last answer, or the beginning of the work that is open, if that was later.
        self._good_at = 0.0
        self._last: str | None = None
        self.stopped: BaseException | None = None

    def start(self, endpoints: Sequence[Endpoint], end: asyncio.Event) -> None:
        """Opens the endpoints; sets `end` when asking has stopped."""
        self._loop, self._end = asyncio.get_running_loop(), end
        for endpoint in endpoints:
            pace = Pace(self._settings.concurrency, self._loop.time, random.random)
            lanes, shown = Lanes(endpoint), endpoint.shown
            self._servers.append(Server(endpoint, lanes, pace, shown, self._wire.lists))

    def submit(self, asker: Asker, rows: list[Row]) -> None:
        """Takes rows; those of one asker stand in line, askers take turns."""
        if self.stopped is not None or asker.gone:
            return
        if not self._open:
            self._good_at, self._last = self._loop.time(), None
        self._open += len(rows)
        asker.open += len(rows)
        self._line_up(asker, rows)
        self._turn()

    def leave(self, asker: Asker) -> None:
        """Forgets what this asker has open."""
        asker.gone = True
        asker.waiting.clear()
        self._open -= asker.open
        asker.open = 0
        for task in list(asker.tasks):
            task.cancel()

    def stop(self, error: BaseException) -> None:
        """Ends all asking, because of `error`."""
        if self.stopped is not None:
            return
        self.stopped = error
        self._end.set()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            if task is not asyncio.current_task(self._loop):
                task.cancel()

    async def close(self) -> None:
        """Waits for what was cancelled and closes the connections."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        for server in self._servers:
            await server.lanes.close()

    def _line_up(self, asker: Asker, rows: list[Row]) -> None:
        asker.waiting.extend(rows)
        if asker not in self._askers:
            self._askers.append(asker)

    def _turn(self) -> None:
        """Sends what may be sent now, and sets the clock for when more may be."""
        if self.stopped is not None:
            return
        now = self._loop.time()
        if self._out_of_patience(now):
            return
        while self._send_one(now):
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._timer = self._loop.call_at(self._next_turn(now), self._turn)

    def _next_turn(self, now: float) -> float:
        times = [self._good_at + self._settings.patience if self._last else now + 1.0]
        # Rows that are due and find no room are woken by whatever makes room.
        if self._again and self._again[0][0] > now:
            times.append(self._again[0][0])
        for server in self._servers:
            if not server.held and (at := server.pace.changes_at()) is not None:
                times.append(at)
        return max(min(times), now + 0.01)

    def _out_of_patience(self, now: float) -> bool:
        patience = self._settings.patience
        if not self._open or self._last is None or now - self._good_at < patience:
            return False
        names = ", ".join(server.shown for server in self._servers)
        self.stop(
            Stopped(
                f"{names} answered nothing for {patience:g} s (last: {self._last});"
                f" {self._n_answers} answers of this run are safe, and the same command goes on"
                " from there."
            )
        )
        return True

    def _send_one(self, now: float) -> bool:
        for server in sorted(self._servers, key=Server.room, reverse=True):
            rows = self._take(server, now)
            if rows:
                self._send(server, rows, now)
                return True
        return False

    def _take(self, server: Server, now: float) -> list[Row]:
        room = server.room()
        if not room:
            return []
        while self._again and (self._again[0][0] <= now or self._again[0][2].asker.gone):
            row = heapq.heappop(self._again)[2]
            if not row.asker.gone:
                return [row]
        while self._askers and not self._askers[0].waiting:
            self._askers.popleft()
        if not self._askers:
            return []
        waiting = self._askers[0].waiting
        size = self._settings.list_size if server.lists else 1
        # Many small lists cost more than a moment's wait for room.
        if room < min(size, len(waiting), max(1, server.pace.limit() // 2)):
            return []
        rows = [waiting.popleft()]
        while waiting and len(rows) < min(size, room) and alike(rows[0], waiting[0]):
            rows.append(waiting.popleft())
        self._askers.rotate(-1)
        return rows

    def _send(self, server: Server, rows: list[Row], now: float) -> None:
        for row in rows:
            row.attempts += 1
            row.first_sent = row.first_sent or now
        server.open += len(rows)
        server.pace.sent()
        task = self._start(self._ask(server, rows, now))
        rows[0].asker.tasks.add(task)
        task.add_done_callback(rows[0].asker.tasks.discard)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, server: Server, rows: list[Row], sent_at: float) -> None:
        try:
            try:
                said = await self._exchange(server, rows[0].request, [row.text for row in rows])
            except Trouble as trouble:
                self._troubled(server, rows, trouble, sent_at)
            else:
                self._answered(server, rows, said)
        except Exception as error:
            self.stop(error)
        finally:
            server.open -= len(rows)
            # After a cancellation the one who cancelled is still at work.
            self._loop.call_soon(self._turn)

    async def _exchange(self, server: Server, request: Request, texts: list[str]) -> list[Said]:
        return await exchange(
            server.lanes,
            server.endpoint,
            self._wire,
            request,
            texts,
            self._settings.timeout,
            self._settings.key_env,
        )

    def _answered(self, server: Server, rows: list[Row], said: list[Said]) -> None:
        server.pace.answered(len(rows))
        self._well(server)
        self._n_answers += len(rows)
        self._deliver(server, rows, said, None)

    def _well(self, server: Server) -> None:
        server.failures = 0
        server.blamed.clear()
        self._good_at, self._last = self._loop.time(), None

    def _deliver(
        self, server: Server, rows: list[Row], said: list[Said], error: str | None
    ) -> None:
        now = self._loop.time()
        answers: list[Answer] = []
        fault: Exception | None = None
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
                seconds=now - row.first_sent,
                endpoint=server.shown,
                error=error,
            )
            # All that came is paid for, also behind the one that reaches a ceiling.
            try:
                self._record(row.request, answer)
            except Exception as raised:
                fault = fault or raised
            answers.append(answer)
        if fault is not None:
            raise fault
        asker = rows[0].asker
        if not asker.gone:
            asker.open -= len(rows)
            self._open -= len(rows)
            asker.answers.put(answers)

    def _fail(self, server: Server, row: Row, error: str) -> None:
        self._deliver(server, [row], [Said("", "failed", 0, 0)], error)

    def _troubled(self, server: Server, rows: list[Row], trouble: Trouble, sent_at: float) -> None:
        if trouble.kind in ("refused", "withheld", "miscounted"):
            self._judged(server, rows, trouble)
            return
        self._last = f"{server.shown}: {trouble}"
        if trouble.kind == "busy":
            server.pace.pushed_back(sent_at, trouble.pause)
            self._back(rows)
        elif trouble.kind == "down":
            for row in rows:
                row.attempts -= 1
            self._back(rows)
            self._doubt(server, down=True)
        else:
            server.pace.erred(sent_at)
            server.failures += 1
            self._erred(server, rows, trouble)
            if server.failures >= _DOUBTFUL:
                self._doubt(server, down=False)

    def _judged(self, server: Server, rows: list[Row], trouble: Trouble) -> None:
        """The endpoint is well, and will not have these rows, or not so."""
        server.pace.answered(len(rows))
        self._well(server)
        if len(rows) > 1:
            server.lists = server.lists and trouble.kind != "miscounted"
            self._alone(rows, 0.0)
            return
        self._fail(server, rows[0], str(trouble))
        if trouble.kind != "refused" or self._n_answers:
            return
        self._n_refused += 1
        if "chat template" in trouble.detail.lower():
            raise Unusable(
                f"The model of {server.shown} has no chat template: set `llm.api: completions`."
            )
        if self._n_refused >= _REFUSED:
            raise Unusable(
                f"The endpoint {server.shown} refused the first {_REFUSED} requests ({trouble}):"
                " mend what it names in the recipe's `llm`."
            )

    def _erred(self, server: Server, rows: list[Row], trouble: Trouble) -> None:
        """Whose fault it was shows when the rows are asked alone."""
        if len(rows) > 1:
            self._alone(rows, 1)
            return
        row = rows[0]
        row.faults += 1
        server.blamed.append(row)
        tries = self._settings.tries
        if row.faults < tries or server.held:
            self._alone(rows, min(row.faults, tries))
            return
        said = f": {trouble.detail}" if trouble.detail else ""
        times = "1 try" if tries == 1 else f"{tries} tries"
        self._fail(server, row, f"{trouble.what} after {times}{said}")

    def _alone(self, rows: list[Row], tried: float) -> None:
        now = self._loop.time()
        for row in rows:
            row.alone = True
            wait = backoff(int(tried), random.random()) if tried else 0.0
            heapq.heappush(self._again, (now + wait, next(self._number), row))

    def _back(self, rows: list[Row]) -> None:
        """To the head of the line, as if never sent."""
        asker = rows[0].asker
        if asker.gone:
            return
        if rows[0].alone:
            self._alone(rows, 0)
            return
        asker.waiting.extendleft(reversed(rows))
        self._line_up(asker, [])

    def _doubt(self, server: Server, down: bool) -> None:
        """Sends nothing more to the endpoint until it has shown that it answers at all."""
        if down:
            self._check()
        if not server.held:
            server.held = True
            server.probe = self._start(self._prove(server, down))

    async def _prove(self, server: Server, down: bool) -> None:
        try:
            for tried in itertools.count(1):
                try:
                    if down:
                        await asyncio.sleep(backoff(tried, random.random(), most=_LOOK))
                        await reachable(server.lanes, server.endpoint)
                    else:
                        await self._exchange(server, _WORD, self._wire.texts([_WORD.prompt]))
                except Trouble as trouble:
                    if trouble.kind not in ("down", "erred"):
                        break
                    self._last = f"{server.shown}: {trouble}"
                    # It fails by itself: nothing that failed here was the fault of a row.
                    for row in server.blamed:
                        row.faults = 0
                    if trouble.kind == "down":
                        down = True
                        self._check()
                    else:
                        await asyncio.sleep(backoff(tried, random.random(), most=_LOOK))
                else:
                    break
            if down:
                server.pace.restart()
            server.failures = 0
            server.blamed.clear()
            server.held = False
        except Exception as error:
            self.stop(error)
        finally:
            self._loop.call_soon(self._turn)
