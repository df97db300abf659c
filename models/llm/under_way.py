"""What is under way: rows, those who ask for them, and the servers that are asked."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue

from tercet.models.llm.exchange import Endpoint, Lanes
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.pace import Pace


class Asker:
    """One caller of `Client.ask`: what waits for it, what is open, what has come."""

    def __init__(self) -> None:
        self.waiting: deque[Row] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.answers: SimpleQueue[list[Answer] | BaseException] = SimpleQueue()
        self.open = 0
        self.gone = False


@dataclass(eq=False, slots=True)
class Row:
    """A request under way.

    attempts: how often it was sent; faults: how many of the tries it had alone failed by what may
    be its own fault; alone: it goes in no list any more.
    """

    request: Request
    text: str
    asker: Asker
    attempts: int = 0
    faults: int = 0
    first_sent: float = 0.0
    alone: bool = False


@dataclass(eq=False)
class Server:
    """An endpoint's state.

    lists: it answers lists rightly. held: nothing is sent until `probe` has ended.
    failures: in a row, without an answer between; blamed: the rows that were alone in these.
    """

    endpoint: Endpoint
    lanes: Lanes
    pace: Pace
    shown: str
    lists: bool
    open: int = 0
    held: bool = False
    failures: int = 0
    blamed: list[Row] = field(default_factory=list)
    probe: asyncio.Task[None] | None = None

    def room(self) -> int:
        """Rows that it may be sent now."""
        return 0 if self.held else max(0, self.pace.limit() - self.open)


def alike(first: Row, other: Row) -> bool:
    """Whether two rows may go out in one list: one sampling, one schema."""
    one, two = first.request, other.request
    return one.sampling == two.sampling and (one.schema is two.schema or one.schema == two.schema)
