"""What is in flight: rows, the callers who ask for them, and the servers that are asked."""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from tercet.models.errors import Unusable
from tercet.models.llm.client.exchange import ConnectionPool, RequestError
from tercet.models.llm.client.pace import Pace
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.wire import Text

# Rows answered for each one pushed back, above which the row itself is too much.
_ONE_IN = 4
# Rows refused in succession, without an answer, after which an endpoint is dropped.
_REFUSED = 8
# What a doubtful endpoint is asked, as a probe.
_WORD = "Say yes."


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


class Caller:
    """One caller of `Client.ask`: its waiting rows, its open ones, and its answers."""

    def __init__(self) -> None:
        self.waiting: deque[Row] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.answers: SimpleQueue[list[Answer] | BaseException] = SimpleQueue()
        self.open = 0
        self.gone = False


@dataclass(eq=False, slots=True)
class Row:
    """A request in flight.

    attempts: how often it was sent; faults: how many attempts on its own failed by what may be its
    fault; alone: it joins no list any more.
    pushes: how often a busy server sent it back; pushed_by, heard: the last server that did, and
    its counts of answers and of rows pushed back by then. refused_by: which server refused it.
    """

    request: Request
    text: Text
    caller: Caller
    attempts: int = 0
    faults: int = 0
    first_sent: float = 0.0
    alone: bool = False
    pushes: int = 0
    pushed_by: "Server | None" = None
    heard: tuple[int, int] = (0, 0)
    refused_by: "Server | None" = None


@dataclass(eq=False)
class Server:
    """The state of the endpoint that is `shown` so.

    lists: it answers lists correctly. held: nothing is sent until `probe` has ended; out: why it is
    no longer asked.
    answered, pushed_back: rows; proved: it answered a probe; failed_at: when it last failed one.
    failures, refused: exchanges in succession without an answer; blamed: the rows that were alone
    in these failures; busy_for: the rows that it pushed back since its last answer.
    """

    shown: str
    pool: ConnectionPool
    pace: Pace
    lists: bool
    open: int = 0
    held: bool = False
    out: Unusable | None = None
    answered: int = 0
    pushed_back: int = 0
    proved: bool = False
    failed_at: float = float("-inf")
    failures: int = 0
    refused: int = 0
    blamed: list[Row] = field(default_factory=list)
    busy_for: set[Row] = field(default_factory=set)
    probe: asyncio.Task[None] | None = None
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.shown)

    def room(self) -> int:
        """How many rows may be sent to it now."""
        return max(0, self.pace.limit() - self.open) if self.is_asked() else 0

    def is_asked(self) -> bool:
        """Whether rows are sent to it at all."""
        return not self.held and self.out is None

    def is_under_way(self) -> bool:
        """Whether it has open rows, or has room for some."""
        return self.open > 0 or self.room() > 0

    def has_spoken(self) -> bool:
        """Whether it has ever answered anything."""
        return self.answered > 0 or self.proved

    def takes(self, rows: int) -> None:
        """Counts rows that are sent to it."""
        if not self.open:
            self.pace.began()
        self.open += rows

    def has_answered(self, rows: int, texts: int) -> None:
        """Counts rows that it answered, so many of them with a text."""
        self.pace.answered(rows)
        self.answered, self.refused = self.answered + rows, 0
        self.tally.answered += texts

    def take_tally(self) -> Tally:
        """What came of its rows since the last call."""
        taken, self.tally = self.tally, Tally(self.shown)
        return taken

    def brought_none(self, rows: int, fault: str) -> None:
        """Counts rows that were sent to it and got no text."""
        self.tally.fruitless += rows
        self.tally.fault = fault

    def is_well(self) -> None:
        """It answered something: earlier failures say nothing about the endpoint."""
        self.failures = 0
        self.blamed.clear()
        self.busy_for.clear()

    def has_proved(self) -> None:
        """It answered a probe: rows that it pushed back meanwhile are themselves too much."""
        self.proved, self.refused = True, 0
        for row in self.busy_for:
            row.faults += 1
        self.pace.resume()

    def refuses_all(self, rows: Sequence[Row], error: RequestError) -> Unusable | None:
        """What the user has to fix if a refusal is about the endpoint, not the row."""
        if len(rows) == 1:
            self.refused += 1
        often = self.refused >= _REFUSED
        if error.unusable is not None:
            return error.unusable if often or not self.has_spoken() else None
        return self._refusing(error) if often and not self.answered else None

    def refuses_words(self, error: RequestError) -> Unusable | None:
        """The same for its answer to a probe."""
        if error.kind != "refused" or (error.unusable is None and self.answered):
            return None
        return error.unusable or self._refusing(error)

    def _refusing(self, error: RequestError) -> Unusable:
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

    def push_back(self, rows: Sequence[Row]) -> bool:
        """Notes that it was too busy for these rows; returns whether that is the lone row's fault.

        It is if the server answered many others, and pushed few back, since it last pushed this
        row back: then it is not busy. For a list, or a row's first push, nobody can tell.
        """
        row = rows[0]
        answered, pushed = self.answered - row.heard[0], self.pushed_back - row.heard[1]
        to_blame = len(rows) == 1 and row.pushed_by is self and answered > _ONE_IN * pushed
        self.pushed_back += len(rows)
        for row in rows:
            row.pushes += 1
            row.pushed_by, row.heard = self, (self.answered, self.pushed_back)
        return to_blame


class RequestQueue:
    """Waiting rows: in the queues of their callers, which take turns, or alone until a given time.

    list_size: the most rows that go out together.
    """

    def __init__(self, list_size: int) -> None:
        self._list_size = list_size
        self._callers: deque[Caller] = deque()
        self._later: list[tuple[float, int, Row]] = []
        self._number = itertools.count()

    def join(self, caller: Caller, rows: Sequence[Row]) -> None:
        """Puts rows at the end of the caller's queue."""
        caller.waiting.extend(rows)
        if caller not in self._callers:
            self._callers.append(caller)

    def back(self, rows: Sequence[Row]) -> None:
        """Puts rows back at the head of the queue, as if never sent."""
        caller = rows[0].caller
        if caller.gone:
            return
        if rows[0].alone:
            self.alone(rows[0], 0.0)
            return
        caller.waiting.extendleft(reversed(rows))
        self.join(caller, ())

    def alone(self, row: Row, at: float) -> None:
        """Sends the row on its own from now on, and not before the time `at`."""
        row.alone = True
        heapq.heappush(self._later, (at, next(self._number), row))

    def are_empty(self) -> bool:
        """Whether all queues are empty; some rows may wait alone."""
        return not any(caller.waiting for caller in self._callers)

    def take(self, server: Server, elsewhere: bool, now: float) -> list[Row]:
        """The rows to send to the server next, as far as it has room.

        elsewhere: another server is asked too, which gets what this one refused.
        """
        room = server.room()
        if not room:
            return []
        row = self._take_alone(server, elsewhere, now)
        if row is not None:
            return [row]
        while self._callers and not self._callers[0].waiting:
            self._callers.popleft()
        if not self._callers:
            return []
        waiting = self._callers[0].waiting
        size = server.pace.list_size(self._list_size) if server.lists else 1
        # Many small lists cost more than a short wait for room.
        if room < min(size, len(waiting), max(1, server.pace.limit() // 2)):
            return []
        rows = [waiting.popleft()]
        while waiting and len(rows) < min(size, room) and alike(rows[0], waiting[0]):
            rows.append(waiting.popleft())
        self._callers.rotate(-1)
        return rows

    def _take_alone(self, server: Server, elsewhere: bool, now: float) -> Row | None:
        passed, found = [], None
        while self._later and (self._later[0][0] <= now or self._later[0][2].caller.gone):
            entry = heapq.heappop(self._later)
            row = entry[2]
            if row.caller.gone:
                continue
            if not (elsewhere and row.refused_by is server):
                found = row
                break
            passed.append(entry)
        for entry in passed:
            heapq.heappush(self._later, entry)
        return found


def a_word(like: Request) -> Request:
    """A probe: a request for one word, with the same sampling and schema."""
    sampling = like.sampling.model_copy(update={"max_tokens": 1})
    return replace(like, prompt=_WORD, sampling=sampling, shots=())


def alike(first: Row, other: Row) -> bool:
    """Whether two rows may share a list: same sampling, same schema."""
    one, two = first.request, other.request
    return one.sampling == two.sampling and (one.schema is two.schema or one.schema == two.schema)
