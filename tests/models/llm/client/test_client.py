import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asking_client import (
    CHAT,
    COMPLETIONS,
    KEY,
    Record,
    answered,
    client,
    poison,
    requests,
)
from even_time import now
from failures import fails
from faulty_server import FaultyServer, Reply, Seen, error, says, silent_port, until

from tercet.models.errors import Stopped
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.wire import ANSWER, Wire

WAYS = pytest.mark.parametrize("wire", [CHAT, COMPLETIONS], ids=["chat", "completions"])


@WAYS
def test_every_row_is_answered_once_with_its_own_answer(wire: Wire) -> None:
    record = Record()
    with FaultyServer() as server, client(server, wire=wire, record=record) as asking:
        assert list(asking.ask(iter(()))) == []
        answers = list(asking.ask(requests(500)))
    assert sorted(a.place for a in answers) == record.places() == list(range(500))
    end = ANSWER.upper() if wire is COMPLETIONS else ""
    for answer in answers:
        assert answer.raw == f"ROW {answer.place}{end}"
        assert (answer.finish_reason, answer.error, answer.attempts) == ("stop", None, 1)
        assert (answer.model, answer.digest) == ("the model", f"d{answer.place}")
        assert answer.endpoint == server.url
    assert set(server.times_asked().values()) == {1}
    # "row 7", or "row 7 Answer:".
    words = 3 if wire is COMPLETIONS else 2
    assert sum(a.prompt_tokens for a in answers) == 500 * words
    assert sum(a.n_tokens for a in answers) == 500 * 2
    assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in server.log)


def test_no_more_than_the_concurrency_is_open() -> None:
    with FaultyServer(delay=0.05) as server, client(server, concurrency=5) as asking:
        assert len(list(asking.ask(requests(60)))) == 60
    assert max(seen.open_rows for seen in server.log) == 5


def test_requests_are_taken_as_answers_are() -> None:
    taken = 0

    def source() -> Iterator[Request]:
        nonlocal taken
        for request in requests(100_000):
            taken += 1
            yield request

    with FaultyServer() as server, client(server) as asking:
        answers = asking.ask(source())
        for _ in range(50):
            next(answers)
        # Twice the concurrency and a batch wait or are open, and what is taken is not yet asked.
        assert taken <= 50 + 2 * 32 + 2 * 16
        answers.close()


def test_rows_that_alone_are_left_and_always_fail_do_not_stop_the_run() -> None:
    rows = requests(30, lambda i: "poison" if i >= 10 else "row")
    with FaultyServer(poison(error(500))) as server:
        record = answered(server, rows=rows, tries=3, patience=30)
    assert sorted(record.failed()) == list(range(10, 30))


def test_a_row_that_hangs_does_not_hold_the_others_up() -> None:
    with (
        FaultyServer(poison(Reply(after=30))) as server,
        # All rows are handed over at once: none is late because this thread is.
        client(server, timeout=3, tries=1, concurrency=8) as asking,
    ):
        answers = list(asking.ask(requests(100, lambda i: "poison" if i == 3 else "row")))
    assert [answer.place for answer in answers if answer.finish_reason == "failed"] == [3]
    # All others came while it hung.
    assert answers[-1].place == 3
    assert 3 <= answers[-1].seconds < 6


def test_an_outage_fails_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    # A row's second try waits long enough for those of others to tell that it is an outage.
    monkeypatch.setattr(random, "random", lambda: 0.99)
    words = 0

    def behave(seen: Seen) -> Reply | None:
        nonlocal words
        words += seen.prompts == ["Say yes."]
        return error(502) if seen.number >= 50 and words < 4 else None

    with FaultyServer(behave, delay=0.02) as server:
        # Many rows are handed over at once: others wait whenever one has failed.
        record = answered(server, rows=requests(300), tries=2, concurrency=4)
    # Rows that fail are waited with, the endpoint is asked a word until it answers.
    assert record.failed() == {}
    assert server.times_asked()["Say yes."] == words == 4


def test_a_dead_endpoints_share_goes_to_the_other() -> None:
    checks = []
    with silent_port() as port, FaultyServer(delay=0.005) as server:
        down, check = f"http://127.0.0.1:{port}/v1", lambda: checks.append(1)
        record = answered(down, server, rows=requests(300), tries=1, check=check)
    assert record.failed() == {}
    assert {a.endpoint for a in record.answers} == {server.url}
    assert {a.attempts for a in record.answers} == {1}
    assert checks


def test_endpoints_share_the_work() -> None:
    with (
        FaultyServer(delay=0.05) as one,
        FaultyServer(delay=0.05) as two,
        client(one, two) as asking,
    ):
        from_whom = Counter(a.endpoint for a in asking.ask(requests(1000)))
    assert min(from_whom[one.url], from_whom[two.url]) > 300


def test_a_server_that_dies_and_comes_back_is_asked_again_only_for_what_was_open() -> None:
    record = Record()
    missed = threading.Event()
    with (
        silent_port() as port,
        FaultyServer(delay=0.02, port=port) as first,
        client(first, record=record, concurrency=16, check=missed.set) as asking,
    ):
        answers = asking.ask(requests(600))
        for _ in range(200):
            next(answers)
        first.kill()
        assert missed.wait(120)
        with FaultyServer(delay=0.02, port=port) as second:
            rest = list(answers)
    assert len(rest) == 400
    assert record.places() == list(range(600))
    assert record.failed() == {}
    asked = first.times_asked() + second.times_asked()
    assert sum(n - 1 for n in asked.values()) <= 16


def test_the_rate_recovers_after_trouble() -> None:
    """Trouble begins when all 128 rows are open for the first time, and lasts for 20 requests."""
    began: int | None = None
    n_trouble, full_again = 20, threading.Event()

    def behave(seen: Seen) -> Reply | None:
        nonlocal began
        if began is None:
            began = seen.number + 1 if seen.open_rows == 128 else None
        elif seen.number < began + n_trouble:
            return error(503, Retry_After="0.3")
        elif seen.open_rows == 128:
            full_again.set()
        return None

    with (
        FaultyServer(behave, delay=0.1) as server,
        client(server, concurrency=128) as asking,
    ):
        # Some thousands are enough to recover; 20,000 that it does not are half a minute.
        for _ in asking.ask(requests(20_000)):
            if full_again.is_set():
                break
    assert began is not None
    assert full_again.is_set()
    # Half of it was left, and each full window of answers, of 64 rows and more, adds four rows.
    ended = began + n_trouble
    again = [seen.open_rows for seen in server.log].index(128, ended)
    assert sum(len(seen.prompts) for seen in server.log[ended:again]) > 640


def test_two_threads_ask_within_one_limit() -> None:
    record = Record()
    found: dict[str, list[str]] = {}
    with (
        FaultyServer(delay=0.005) as server,
        client(server, record=record, concurrency=12) as asking,
    ):

        def run(name: str) -> None:
            found[name] = [a.raw for a in asking.ask(requests(300, lambda place: name))]

        threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    assert len(record.answers) == 900
    for name, raws in found.items():
        assert sorted(raws) == sorted(f"{name} {i}".upper() for i in range(300))
    assert max(seen.open_rows for seen in server.log) <= 12


def test_a_caller_that_stops_early_cancels_what_it_has_open() -> None:
    with (
        FaultyServer(lambda seen: Reply(after=30) if "slow" in seen.prompts[0] else None) as server,
        client(server) as asking,
    ):
        answers = asking.ask(requests(1000, lambda i: "row" if i < 5 else "slow"))
        assert next(answers).place in range(5)
        # What is cancelled before it has arrived anywhere leaves no trace.
        assert until(lambda: any("slow" in seen.prompts[0] for seen in server.log))
        answers.close()
        assert until(lambda: server.cancelled)
        # Others are served on, within the whole limit.
        assert len(list(asking.ask(requests(50)))) == 50
    # Those that were open, and none of the 963 that waited.
    assert sum("slow" in seen.prompts[0] for seen in server.log) <= 32


def test_what_record_raises_ends_all_asking() -> None:
    fault = OSError("the disk is full")
    recorded = []

    def record(request: Request, answer: Answer) -> None:
        recorded.append(answer)
        if len(recorded) == 20:
            raise fault

    ends: list[BaseException] = []
    with FaultyServer(delay=0.01) as server, client(server, record=record) as asking:

        def run() -> None:
            try:
                list(asking.ask(requests(100_000)))
            except OSError as error:
                ends.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        # And what was open then.
        assert 20 <= len(recorded) <= 20 + 31
    assert ends == [fault, fault]


def test_each_answer_is_recorded_before_it_is_seen() -> None:
    record = Record()
    with FaultyServer() as server, client(server, record=record) as asking:
        for n, answer in enumerate(asking.ask(requests(200))):
            assert len(record.answers) > n
            assert any(one is answer for one in record.answers)


def test_a_fault_of_the_requests_themselves_reaches_the_caller() -> None:
    def source() -> Iterator[Request]:
        yield from requests(10)
        raise KeyError("no such column")

    with FaultyServer() as server, client(server) as asking:
        with pytest.raises(KeyError):
            list(asking.ask(source()))
        assert len(list(asking.ask(requests(5)))) == 5


def test_a_closed_client_asks_no_more() -> None:
    with FaultyServer(lambda seen: Reply(after=30)) as server:
        with client(server) as asking:
            ended: list[str] = []

            def run() -> None:
                try:
                    list(asking.ask(requests(10)))
                except Stopped as error:
                    ended.append(str(error))

            thread = threading.Thread(target=run)
            thread.start()
            assert until(lambda: server.log)
            asking.close()
            asking.close()
            thread.join(120)
        assert len(ended) == 1
        with pytest.raises(Stopped):
            list(asking.ask(requests(1)))


def test_a_slow_server_gets_no_more_than_it_answers_in_time() -> None:
    """It takes whatever comes and answers 50 rows a second: 200 at once would time out."""
    free_at = 0.0

    def behave(seen: Seen) -> Reply:
        nonlocal free_at
        free_at = max(free_at, now()) + 0.02 * len(seen.prompts)
        return Reply(body=says(seen), after=free_at - now())

    settings: dict[str, Any] = {"concurrency": 500, "timeout": 2}
    with FaultyServer(behave) as server:
        record = answered(server, rows=requests(200), **settings)
    assert record.failed() == {}
    assert set(server.times_asked().values()) == {1}
    # A second's worth, half of the timeout, and a few that were measured late.
    assert max(seen.open_rows for seen in server.log) <= 70


def test_an_endpoint_that_only_fails_stops_with_the_count_of_what_is_safe() -> None:
    record = Record()
    with (
        FaultyServer(lambda seen: error(500, "no memory") if seen.number >= 20 else None) as server,
        client(server, record=record, patience=1.5, concurrency=4) as asking,
        fails("unreachable", "20"),
    ):
        list(asking.ask(requests(1000)))
    assert sum(a.finish_reason == "stop" for a in record.answers) == 20


def test_an_endpoint_that_asks_for_an_hour_is_not_waited_for() -> None:
    began = now()
    with (
        FaultyServer(lambda seen: error(429, "quota", Retry_After="3600")) as server,
        client(server, patience=1) as asking,
        fails("unreachable", "quota"),
    ):
        list(asking.ask(requests(100)))
    assert now() - began < 10
    # And a word, whether it is really so.
    assert len(server.log) <= 32 + 1


def test_what_check_raises_ends_all_asking() -> None:
    def dead() -> None:
        raise Stopped("bad_value", "the engine is dead")

    with silent_port() as port, client(f"http://127.0.0.1:{port}/v1", check=dead) as asking:
        for _ in range(2):
            with fails("bad_value", "engine"):
                list(asking.ask(requests(10)))


# What stands in the place of a text, in a chat and in a completion.
NOTHING: list[tuple[dict[str, Any], str]] = [
    ({"content": None}, ""),
    ({"content": None, "reasoning_content": "Hm.", "reasoning": "Hm."}, "<think>Hm.</think>"),
    ({"content": "\u200b\x00"}, "\ufeff \x07"),
]


def silent(
    message: dict[str, Any], text: str, when: Callable[[str], bool], finish: str = "stop"
) -> Callable[[Seen], Reply]:
    """Answers rightly but for these prompts."""

    def behave(seen: Seen) -> Reply:
        answer = json.loads(says(seen))
        for choice in answer["choices"]:
            if when(seen.prompts[choice["index"]]):
                choice["finish_reason"] = finish
                if "message" in choice:
                    choice["message"] = message
                else:
                    choice["text"] = text
        return Reply(body=json.dumps(answer).encode())

    return behave


def poisonous(place: int) -> str:
    return "poison" if place in (7, 8) else "row"


@WAYS
@pytest.mark.parametrize(("message", "text"), NOTHING)
def test_a_row_without_a_text_is_tried_again_and_fails(
    wire: Wire, message: dict[str, Any], text: str
) -> None:
    with FaultyServer(silent(message, text, lambda prompt: "poison" in prompt)) as server:
        record = answered(server, rows=requests(20, poisonous), wire=wire, tries=3)
    assert set(record.failed()) == {7, 8}
    assert {a.n_tokens > 0 for a in record.answers} == {True}
    times = {prompt.split()[1]: count for prompt, count in server.times_asked().items()}
    assert {place for place, count in times.items() if count > 1} == {"7", "8"}
    assert (times["7"], times["8"]) == (3, 3)


def test_a_text_that_comes_at_the_second_try_is_the_answer() -> None:
    seen = set[str]()

    def first(prompt: str) -> bool:
        new = prompt not in seen
        seen.add(prompt)
        return new

    with FaultyServer(silent({"content": None}, "", first)) as server:
        record = answered(server, rows=requests(20), tries=2)
    assert record.failed() == {}


@WAYS
def test_thoughts_that_took_all_the_room_are_not_paid_for_again(wire: Wire) -> None:
    message = {"content": None, "reasoning_content": "Hm"}
    behave = silent(message, "</think>", lambda prompt: "poison" in prompt, "length")
    with FaultyServer(behave) as server:
        record = answered(server, rows=requests(20, poisonous), wire=wire)
    assert set(record.failed()) == {7, 8}
    assert all("max_tokens" in message for message in record.failed().values())
    assert {answer.attempts for answer in record.answers} == {1}


def test_a_model_that_never_says_anything_ends_in_failed_rows() -> None:
    with FaultyServer(silent({"content": None}, "", lambda prompt: True)) as server:
        record = answered(server, rows=requests(20), tries=2)
    assert sorted(record.failed()) == list(range(20))
