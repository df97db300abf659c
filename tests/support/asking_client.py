"""A client against servers of a test's own, and what it told."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from even_time import EvenLoop
from faulty_server import FaultyServer, Reply, Seen

from tercet.models.llm.client.client import Client
from tercet.models.llm.client.exchange import Endpoint
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import Sampling
from tercet.models.llm.wire import Wire

CHAT = Wire("chat")
COMPLETIONS = Wire("completions")
SAMPLING = Sampling()
KEY = "a-secret-key"


class Record:
    """What the client told, in order."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def __call__(self, request: Request, answer: Answer) -> None:
        assert (request.place, request.digest) == (answer.place, answer.digest)
        self.answers.append(answer)

    def places(self) -> list[int]:
        return sorted(answer.place for answer in self.answers)

    def failed(self) -> dict[int, str]:
        return {a.place: a.error or "" for a in self.answers if a.finish_reason == "failed"}


def requests(n: int, word: Callable[[int], str] = lambda place: "row") -> Iterator[Request]:
    return (Request(i, f"{word(i)} {i}", SAMPLING, i, digest=f"d{i}") for i in range(n))


@contextmanager
def client(
    *servers: FaultyServer | str,
    wire: Wire = CHAT,
    record: Callable[[Request, Answer], None] | None = None,
    check: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Iterator[Client]:
    """Keeps even time."""
    urls = [one if isinstance(one, str) else one.url for one in servers]
    asked = AskingSettings(**{"concurrency": 32, "timeout": 20, **settings})
    with patch("asyncio.new_event_loop", EvenLoop):
        made = Client(
            [Endpoint(url, "tiny", KEY) for url in urls],
            wire,
            asked,
            "the model",
            record or (lambda request, answer: None),
            check,
        )
    try:
        yield made
    finally:
        made.close()


def once(*replies: Reply, when: Callable[[Seen], bool] = lambda seen: True) -> Any:
    """Each reply once, to the first requests that `when` names; then all is well."""
    left = list(replies)

    def behave(seen: Seen) -> Reply | None:
        return left.pop(0) if left and when(seen) else None

    return behave


def poison(reply: Reply) -> Callable[[Seen], Reply | None]:
    return lambda seen: reply if any("poison" in prompt for prompt in seen.prompts) else None


def answered(*servers: FaultyServer | str, rows: Iterable[Request], **settings: Any) -> Record:
    """What the client told of these rows, each of which was answered or given up once."""
    listed, record = list(rows), Record()
    with client(*servers, record=record, **settings) as asking:
        list(asking.ask(iter(listed)))
    assert record.places() == [row.place for row in listed]
    return record
