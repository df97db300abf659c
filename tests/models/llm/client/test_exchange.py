"""What one exchange may bring, and what is made of it."""

from email.utils import formatdate
from types import SimpleNamespace

import pytest
from asking_client import KEY, Record, client, once, poison, requests
from failures import fails
from faulty_server import FaultyServer, Reply, Seen, error

from tercet.models.errors import Unusable
from tercet.models.llm.client.exchange import Endpoint


@pytest.mark.parametrize("header", ["seconds", "date"])
def test_429_pauses_the_endpoint_and_costs_no_try(
    header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The day's time stands still, lest the date be past when it is read.
    monkeypatch.setattr("tercet.models.llm.client.pace.time", SimpleNamespace(time=lambda: 1e9))
    after = "2" if header == "seconds" else formatdate(1e9 + 2, usegmt=True)
    behave = once(*[error(429, "slow down", Retry_After=after)] * 10)
    record = Record()
    with (
        FaultyServer(behave) as server,
        # The first ten rows are taken at once.
        client(server, record=record, tries=1, concurrency=10) as asking,
    ):
        answers = list(asking.ask(requests(40)))
    assert record.places() == list(range(40))
    assert record.failed() == {}
    assert sum(a.attempts for a in answers) == 50
    gap = server.log[10].at - server.log[9].at
    assert 2 <= gap < 4


def test_a_503_without_a_time_is_waited_out() -> None:
    # Each pause may be twice as long as the one before it.
    behave = once(*[error(503, "loading")] * 5)
    record = Record()
    with FaultyServer(behave) as server, client(server, record=record, tries=1) as asking:
        list(asking.ask(requests(100)))
    assert record.places() == list(range(100))
    assert record.failed() == {}


# What goes wrong, and what is told of a row to which it always happens.
TROUBLES = {
    "500": (error(500), "HTTP 500 after 2 tries: out of order"),
    "502": (
        Reply(502, b"<html>bad gateway</html>"),
        "HTTP 502 after 2 tries: <html>bad gateway</html>",
    ),
    "half a JSON": (
        Reply(200, b'{"choices": [{"index": 0, "text": "RO'),
        "a body of 37 bytes that is not JSON after 2 tries",
    ),
    "a body that ends early": (
        Reply(200, b'{"choices": []}', share=0.5),
        "connection lost after 2 tries: RemoteProtocolError",
    ),
    "an empty body": (Reply(200, b""), "an empty body after 2 tries"),
    "no choices": (Reply(200, b'{"choices": []}'), "an answer without choices after 2 tries"),
    "a reset": (Reply(reset=True), "connection lost after 2 tries: ReadError"),
    "silence": (Reply(200, b"{}", after=30.0), "no answer within 1 s after 2 tries"),
}


def patient(trouble: str) -> dict[str, float]:
    return {"timeout": 1 if trouble == "silence" else 20}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_passing_trouble_loses_no_row(trouble: str) -> None:
    record = Record()
    behave = once(*[TROUBLES[trouble][0]] * 5)
    with (
        FaultyServer(behave) as server,
        client(server, record=record, concurrency=8, **patient(trouble)) as asking,
    ):
        list(asking.ask(requests(100)))
    assert record.places() == list(range(100))
    assert record.failed() == {}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_row_that_always_fails_is_given_up_alone(trouble: str) -> None:
    record = Record()
    reply, reason = TROUBLES[trouble]
    with (
        FaultyServer(poison(reply)) as server,
        client(server, record=record, concurrency=8, tries=2, **patient(trouble)) as asking,
    ):
        list(asking.ask(requests(100, lambda i: "poison" if i == 30 else "row")))
    assert record.places() == list(range(100))
    assert record.failed() == {30: reason}
    asked = server.times_asked()
    assert sum(n for prompt, n in asked.items() if "poison" in prompt) == 2


def test_a_400_is_the_fault_of_its_row_alone() -> None:
    record = Record()
    with (
        FaultyServer(poison(error(400, "the prompt is too long"))) as server,
        client(server, record=record) as asking,
    ):
        # It goes out when something was answered: nothing is left to be asked in a word.
        list(asking.ask(requests(64, lambda i: "poison" if i == 37 else "row")))
    assert record.places() == list(range(64))
    assert record.failed() == {37: "HTTP 400: the prompt is too long"}
    assert len(server.log) == 64


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (error(401, f"no such key: {KEY}"), "MY_KEY"),
        (error(403), "MY_KEY"),
        (error(404, "The model `tiny` does not exist."), "'tiny'.*/v1"),
        (Reply(301, b"", {"Location": "https://other.example/v1?k=1"}), "https://other"),
        (error(429, "You exceeded your current quota, please check your plan"), "quota"),
        (error(400, "default chat template is no longer allowed, you must provide one"), "llm.api"),
    ],
)
def test_what_the_user_must_fix_stops_at_once(reply: Reply, names: str) -> None:
    with (
        FaultyServer(lambda seen: reply) as server,
        client(server, key_env="MY_KEY") as asking,
        pytest.raises(Unusable, match=names) as raised,
    ):
        list(asking.ask(requests(1000)))
    assert KEY not in str(raised.value)
    assert len(server.log) <= 33


@pytest.mark.parametrize("url", ["http://host:port/v1", "http:///v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_unusable(url: str) -> None:
    with pytest.raises(Unusable):
        Endpoint(url, "tiny")


def test_a_key_is_told_to_nobody() -> None:
    endpoint = Endpoint("https://user:word@host.example:8443/v1/?key=1", "m", KEY)
    assert KEY not in repr(endpoint)
    assert endpoint.shown == "https://host.example:8443/v1"
    assert str(endpoint.at("/x")).endswith("@host.example:8443/v1/x?key=1")
    record = Record()
    with (
        FaultyServer(poison(error(500, f"cannot use {KEY}"))) as server,
        client(server, record=record, tries=1) as asking,
    ):
        list(asking.ask(requests(2, lambda i: "poison" if i == 0 else "row")))
    assert record.failed() == {0: "HTTP 500 after 1 try: cannot use …"}


def test_only_refusals_from_the_first_row_on_are_the_recipes_fault() -> None:
    record = Record()
    with (
        FaultyServer(lambda seen: error(400, "max_tokens is too large")) as server,
        client(server, record=record) as asking,
        fails("lost", "max_tokens"),
    ):
        list(asking.ask(requests(1000)))
    # A word is refused too: no row is to blame.
    assert record.answers == []


def test_what_an_endpoint_does_not_take_is_left_out_once() -> None:
    def behave(seen: Seen) -> Reply | None:
        if "max_tokens" in seen.body:
            return error(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
        if "temperature" in seen.body:
            return Reply(
                400, b'{"error": {"message": "Unsupported value", "param": "temperature"}}'
            )
        return None

    record = Record()
    with FaultyServer(behave) as server, client(server, record=record, concurrency=1) as asking:
        list(asking.ask(requests(20)))
    assert record.failed() == {}
    assert len(server.log) == 22
    assert "max_completion_tokens" in server.log[-1].body
