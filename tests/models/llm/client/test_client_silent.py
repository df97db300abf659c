"""Answers without a text are no answers: the row is asked again, and fails in the end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from asking_client import CHAT, LISTS, Record, client, requests
from faulty_server import FaultyServer, Reply, Seen, says

from tercet.models.llm.wire import Wire

WAYS = pytest.mark.parametrize("wire", [CHAT, LISTS], ids=["chat", "lists"])
# What stands in the place of a text, in a chat and in a completion.
NOTHING: list[tuple[dict[str, Any], str]] = [
    ({"content": None}, ""),
    ({"content": None, "reasoning_content": "Hm.", "reasoning": "Hm."}, "<think>Hm.</think>"),
    ({"content": "", "tool_calls": [{"id": "x"}]}, "\n\n"),
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
    record = Record()
    with (
        FaultyServer(silent(message, text, lambda prompt: "poison" in prompt)) as server,
        client(server, wire=wire, record=record, tries=3) as asking,
    ):
        list(asking.ask(requests(20, poisonous)))
    assert record.places() == list(range(20))
    failed = record.failed()
    assert set(failed) == {7, 8}
    assert all(said.endswith(" after 3 tries") for said in failed.values())
    assert all(said.startswith("an answer ") for said in failed.values())
    assert {a.n_tokens > 0 for a in record.answers} == {True}
    times = {prompt.split()[1]: count for prompt, count in server.times_asked().items()}
    assert {place for place, count in times.items() if count > 1} == {"7", "8"}
    assert (times["7"], times["8"]) == (3, 3)


@WAYS
def test_a_text_that_comes_at_the_second_try_is_the_answer(wire: Wire) -> None:
    record, seen = Record(), set[str]()

    def first(prompt: str) -> bool:
        new = prompt not in seen
        seen.add(prompt)
        return new

    with (
        FaultyServer(silent({"content": None}, "", first)) as server,
        client(server, wire=wire, record=record, tries=2) as asking,
    ):
        list(asking.ask(requests(20)))
    assert record.places() == list(range(20))
    assert record.failed() == {}


@WAYS
def test_thoughts_that_took_all_the_room_are_not_paid_for_again(wire: Wire) -> None:
    record = Record()
    message = {"content": None, "reasoning_content": "Hm"}
    behave = silent(message, "</think>", lambda prompt: "poison" in prompt, "length")
    with FaultyServer(behave) as server, client(server, wire=wire, record=record) as asking:
        list(asking.ask(requests(20, poisonous)))
    said = "an answer of nothing but thoughts: raise max_tokens after 1 try"
    assert record.failed() == {7: said, 8: said}


@WAYS
def test_a_model_that_never_says_anything_ends_in_failed_rows(wire: Wire) -> None:
    record = Record()
    with (
        FaultyServer(silent({"content": None}, "", lambda prompt: True)) as server,
        client(server, wire=wire, record=record, tries=2) as asking,
    ):
        list(asking.ask(requests(20)))
    assert sorted(record.failed()) == record.places() == list(range(20))
