"""When asking stops, and what is said then."""

import random
from itertools import pairwise

import pytest
from asking_client import Record, client, poison, requests
from even_time import now
from failures import fails
from faulty_server import FaultyServer, error, silent_port

from tercet.models.errors import Stopped


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


def test_the_pause_before_a_row_is_asked_again_is_a_drawn_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.0)
    with FaultyServer(poison(error(500))) as server, client(server, tries=6) as asking:
        list(asking.ask(requests(20, lambda place: "poison" if place == 7 else "row")))
    times = [seen.at for seen in server.log if "poison" in seen.prompts[0]]
    assert len(times) == 6
    assert min(later - sooner for sooner, later in pairwise(times[-3:])) < 0.9


def test_what_check_raises_ends_all_asking() -> None:
    def dead() -> None:
        raise Stopped("bad_value", "the engine is dead")

    with silent_port() as port, client(f"http://127.0.0.1:{port}/v1", check=dead) as asking:
        for _ in range(2):
            with fails("bad_value", "engine"):
                list(asking.ask(requests(10)))
