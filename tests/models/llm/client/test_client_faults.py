"""Whose fault it is: a row's, an endpoint's, the recipe's."""

import random
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking_client import Record, client, poison, requests
from even_time import now
from failures import fails
from faulty_server import FaultyServer, Reply, Seen, error, says, until

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.pace import Pace
from tercet.models.llm.messages import Answer, Request


def one_poisonous(place: int) -> str:
    return "poison" if place == 7 else "row"


def is_word(seen: Seen) -> bool:
    return seen.prompts[0].startswith("Say yes.")


@pytest.mark.parametrize(("timeout", "tries"), [(1.2, 2), (0.4, 4)])
def test_a_row_that_hangs_for_longer_than_the_patience_fails_alone(
    timeout: float, tries: int
) -> None:
    record = Record()
    with (
        FaultyServer(poison(Reply(after=30))) as server,
        client(server, record=record, timeout=timeout, patience=0.8, tries=tries) as asking,
    ):
        list(asking.ask(requests(40, one_poisonous)))
    assert record.places() == list(range(40))
    assert record.failed() == {7: f"no answer within {timeout} s after {tries} tries"}


def test_a_server_that_hangs_altogether_stops_the_run() -> None:
    began = now()
    record = Record()
    with (
        FaultyServer(lambda seen: Reply(after=30)) as server,
        client(server, record=record, timeout=1, patience=0.8) as asking,
        pytest.raises(Stopped),
    ):
        list(asking.ask(requests(40)))
    assert record.answers == []
    assert now() - began < 10


@pytest.mark.parametrize(
    "reply", [error(429, "too large"), error(503, "too large", Retry_After="0.2")]
)
def test_a_row_that_is_always_too_much_fails_alone_and_holds_nobody_up(
    reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its tries are far enough from each other for the others to come between.
    monkeypatch.setattr(random, "random", lambda: 0.9)
    record = Record()
    began = now()
    with (
        FaultyServer(poison(reply), delay=0.02) as server,
        client(server, record=record, tries=3) as asking,
    ):
        list(asking.ask(requests(400, one_poisonous)))
    assert record.places() == list(range(400))
    assert record.failed() == {7: f"HTTP {reply.status} after 3 tries: too large"}
    assert [answer.place for answer in record.answers].index(7) > 100
    assert sum(n for prompt, n in server.times_asked().items() if "poison" in prompt) <= 7
    assert now() - began < 30


def test_rows_that_are_too_much_end_also_where_nothing_else_is_left_to_ask() -> None:
    record = Record()
    with (
        FaultyServer(poison(error(429, "too large"))) as server,
        client(server, record=record, tries=2) as asking,
    ):
        list(asking.ask(requests(5, lambda place: "poison")))
    assert record.failed() == dict.fromkeys(range(5), "HTTP 429 after 2 tries: too large")


def test_an_hours_pause_that_one_row_brought_ends_when_a_word_is_answered() -> None:
    record = Record()
    with (
        FaultyServer(poison(error(503, "no", Retry_After="3600")), delay=0.02) as server,
        client(server, record=record, tries=1, patience=0.5) as asking,
    ):
        list(asking.ask(requests(100, one_poisonous)))
    assert record.failed() == {7: "HTTP 503 after 1 try: no"}


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_an_endpoint_that_refuses_everything_costs_no_row(status: int) -> None:
    record = Record()
    with (
        FaultyServer(lambda seen: error(status)) as one,
        FaultyServer(delay=0.02) as two,
        client(one, two, record=record) as asking,
    ):
        list(asking.ask(requests(300)))
    assert record.places() == list(range(300))
    assert record.failed() == {}
    # What went out before the first refusal came back, and a word.
    assert len(one.log) <= 32 + 1


def test_endpoints_that_all_refuse_are_all_named() -> None:
    record = Record()
    with (
        FaultyServer(lambda seen: error(404, "no model")) as one,
        FaultyServer(lambda seen: error(400, "bad sampling")) as two,
        client(one, two, record=record) as asking,
        pytest.raises(Unusable) as raised,
    ):
        list(asking.ask(requests(300)))
    assert record.answers == []
    for words in (one.url, two.url, "no model", "bad sampling"):
        assert words in str(raised.value)


@pytest.mark.parametrize("both", [False, True])
def test_a_row_that_one_endpoint_refuses_is_asked_at_the_other_once(both: bool) -> None:
    record = Record()
    refuses = poison(error(400, "too long"))
    with (
        FaultyServer(refuses, delay=0.01) as one,
        FaultyServer(refuses if both else lambda seen: None, delay=0.01) as two,
        client(one, two, record=record) as asking,
    ):
        list(asking.ask(requests(200, lambda i: "poison" if i in (100, 150) else "row")))
    assert record.places() == list(range(200))
    assert record.failed() == (dict.fromkeys((100, 150), "HTTP 400: too long") if both else {})
    asked = one.times_asked() + two.times_asked()
    poisonous = [n for prompt, n in asked.items() if "poison" in prompt]
    assert poisonous == [2, 2] if both else set(poisonous) <= {1, 2}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_row_that_may_not_be_asked_fails_alone(status: int) -> None:
    record = Record()
    with (
        FaultyServer(poison(error(status, "not allowed"))) as server,
        client(server, record=record, concurrency=8) as asking,
    ):
        list(asking.ask(requests(100, lambda i: "poison" if i == 50 else "row")))
    assert record.failed() == {50: f"HTTP {status}: not allowed"}


def test_a_key_that_is_withdrawn_stops_the_run() -> None:
    record = Record()
    # Later than what was answered before: an answer that came between would be taken for hope.
    refusal = replace(error(401, "no key"), after=0.1)
    with (
        FaultyServer(lambda seen: refusal if seen.number >= 50 else None) as server,
        client(server, record=record, key_env="MY_KEY") as asking,
        fails("lost", "MY_KEY"),
    ):
        list(asking.ask(requests(10_000)))
    assert len(record.failed()) < 8


@pytest.mark.parametrize("tries", [1, 5])
def test_an_endpoint_that_never_answered_is_at_fault_however_few_the_rows(tries: int) -> None:
    record = Record()
    with (
        FaultyServer(lambda seen: error(500, "no memory")) as server,
        client(server, record=record, tries=tries, patience=1.5) as asking,
        fails("unreachable"),
    ):
        list(asking.ask(requests(1)))
    assert record.answers == []
    with (
        FaultyServer(lambda seen: error(400, "no such adapter")) as server,
        client(server, tries=tries) as asking,
        fails("lost"),
    ):
        list(asking.ask(requests(1)))
    assert [is_word(seen) for seen in server.log] == [False, True]


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_lone_row_is_at_fault_where_a_word_is_answered(status: int) -> None:
    record = Record()
    with (
        FaultyServer(poison(error(status, "no"))) as server,
        client(server, record=record, tries=2) as asking,
    ):
        if status == 403:
            # Nothing was answered yet: nobody is let in, as far as can be known.
            with pytest.raises(Unusable):
                list(asking.ask(requests(1, lambda place: "poison")))
            return
        list(asking.ask(requests(1, lambda place: "poison")))
    after = " after 2 tries" if status == 500 else ""
    assert record.failed() == {0: f"HTTP {status}{after}: no"}


def test_the_message_of_an_error_in_the_place_of_an_answer_is_told() -> None:
    record = Record()
    with (
        FaultyServer(poison(Reply(200, b'{"error": {"message": "overloaded"}}'))) as server,
        client(server, record=record, tries=1) as asking,
    ):
        list(asking.ask(requests(20, one_poisonous)))
    assert record.failed() == {7: "an answer without choices after 1 try: overloaded"}


def test_what_is_open_when_a_ceiling_is_reached_is_recorded_too() -> None:
    told: list[Answer] = []

    def record(request: Request, answer: Answer) -> None:
        told.append(answer)
        if len(told) >= 5:
            raise Stopped("bad_value", f"enough at {len(told)}")

    def staggered(seen: Seen) -> Reply:
        return Reply(200, says(seen), after=0.1 + 0.1 * (seen.number % 5))

    # So many rows are taken at once: all that may be open are, when the first answer comes.
    with (
        FaultyServer(staggered) as server,
        client(server, record=record) as asking,
    ):
        with pytest.raises(Stopped):
            list(asking.ask(requests(1000)))
        with pytest.raises(Stopped):
            list(asking.ask(requests(1)))
    assert server.cancelled == 0
    assert sorted(answer.place for answer in told) == list(range(len(server.log)))
    assert len(told) >= 16


def test_nobody_waits_for_what_is_open_when_the_client_is_closed_meanwhile() -> None:
    recorded = threading.Event()

    def record(request: Request, answer: Answer) -> None:
        recorded.set()
        raise Stopped("bad_value", "enough")

    with (
        FaultyServer(poison(Reply(after=3600))) as server,
        client(server, record=record, timeout=3600) as asking,
    ):
        ends: list[str] = []

        def run() -> None:
            try:
                list(asking.ask(requests(20, one_poisonous)))
            except Stopped as fault:
                ends.append(str(fault))

        thread = threading.Thread(target=run)
        thread.start()
        assert recorded.wait(120)
        assert until(lambda: any("poison" in seen.prompts[0] for seen in server.log))
        # It is still waited for.
        thread.join(0.5)
        assert ends == []
        asking.close()
        thread.join(120)
        assert ends == ["enough"]


def test_a_host_that_nobody_knows_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def unknown(host: Any, *args: Any, **kwargs: Any) -> Any:
        # As a name server says it; there may be none here, or one that has an address for any name.
        if host in ("no-such-host.invalid", b"no-such-host.invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    began = now()
    with (
        client("http://no-such-host.invalid/v1") as asking,
        fails("lost", "no-such-host"),
    ):
        list(asking.ask(requests(10)))
    # The patience that is not to be waited for are 180 s.
    assert now() - began < 60


def test_a_certificate_that_nobody_trusts_is_told_at_once(tmp_path: Path) -> None:
    with (
        FaultyServer(tls=_self_signed(tmp_path)) as server,
        client(server) as asking,
        fails("lost", "SSL_CERT_FILE"),
    ):
        list(asking.ask(requests(10)))


def _self_signed(folder: Path) -> ssl.SSLContext:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def test_an_endpoint_that_answers_a_word_but_no_row_stops_the_run() -> None:
    def behave(seen: Seen) -> Reply | None:
        return None if is_word(seen) else error(500, "out of grammar")

    record = Record()
    with (
        FaultyServer(behave) as server,
        client(server, record=record, tries=2) as asking,
        fails("unreachable"),
    ):
        list(asking.ask(requests(100)))
    assert len(record.failed()) == 8


def test_a_fault_of_our_own_ends_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than leaving everybody waiting."""
    monkeypatch.setattr(Pace, "answered", lambda *args: 1 / 0)
    with (
        FaultyServer() as server,
        client(server) as asking,
        pytest.raises(ZeroDivisionError),
    ):
        list(asking.ask(requests(3)))
