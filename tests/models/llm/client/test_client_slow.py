import threading
from collections.abc import Iterator

import pytest
from asking_client import CHAT, LISTS, Record, client, requests
from even_time import now
from faulty_server import FaultyServer, Reply, Seen, says

from tercet.models.llm.client.client import Client
from tercet.models.llm.messages import Request
from tercet.models.llm.wire import Wire


@pytest.mark.parametrize("wire", [CHAT, LISTS], ids=["chat", "lists"])
def test_a_slow_server_gets_no_more_than_it_answers_in_time(wire: Wire) -> None:
    """It takes whatever comes and answers 50 rows a second: 200 at once would time out."""
    free_at = 0.0

    def behave(seen: Seen) -> Reply:
        nonlocal free_at
        free_at = max(free_at, now()) + 0.02 * len(seen.prompts)
        return Reply(body=says(seen), after=free_at - now())

    record = Record()
    with (
        FaultyServer(behave) as server,
        client(
            server, wire=wire, record=record, concurrency=500, list_size=64, timeout=2
        ) as asking,
    ):
        assert len(list(asking.ask(requests(200)))) == 200
    assert record.failed() == {}
    assert set(server.times_asked().values()) == {1}
    # A second's worth, half of the timeout, and a few that were measured late.
    assert max(seen.open_rows for seen in server.log) <= 70


def test_what_is_asked_before_its_thread_runs_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = Client._run, threading.Event()

    def late(client: Client) -> None:
        assert asked.wait(60)
        run(client)

    def source() -> Iterator[Request]:
        yield from requests(4)
        asked.set()

    monkeypatch.setattr(Client, "_run", late)
    with FaultyServer() as server, client(server, list_size=1) as asking:
        assert len(list(asking.ask(source()))) == 4
