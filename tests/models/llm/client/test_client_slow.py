import pytest
from asking_client import CHAT, LISTS, Record, client, requests
from even_time import now
from faulty_server import FaultyServer, Reply, Seen, says

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
