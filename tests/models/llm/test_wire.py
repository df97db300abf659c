import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.llm.messages import Request, Shot
from tercet.models.llm.settings import Sampling
from tercet.models.llm.wire import (
    ANSWER,
    STOP,
    Completion,
    Malformed,
    Wire,
    Withheld,
    error_message,
    message,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
PLAIN = Request(0, "Say it.", Sampling(temperature=0.5, top_p=0.9, max_tokens=7), seed=3)
FORMED = Request(0, "Say it.", PLAIN.sampling, seed=3, schema=SCHEMA)
SAMPLED = {"model": "m", "temperature": 0.5, "top_p": 0.9, "max_tokens": 7}
FORM = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}


def body(wire: Wire, request: Request) -> dict[str, Any]:
    (text,) = wire.texts([request])
    return wire.body("m", request, text)


def test_a_chat_is_one_message_of_the_user() -> None:
    turns = {"messages": [{"role": "user", "content": "Say it."}]}
    assert body(Wire("chat"), PLAIN) == SAMPLED | turns
    wire = Wire("chat", template_kwargs={"enable_thinking": False})
    assert body(wire, FORMED) == SAMPLED | turns | {
        "response_format": FORM,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_a_base_model_reads_that_an_answer_follows() -> None:
    wire, prompt = Wire("completions"), "Say it." + ANSWER
    assert body(wire, PLAIN) == SAMPLED | {"prompt": prompt, "stop": list(STOP)}
    # JSON ends by itself.
    assert body(wire, FORMED) == SAMPLED | {"prompt": prompt, "response_format": FORM}


def test_shots_are_turns_before_the_question() -> None:
    shown = replace(PLAIN, shots=(Shot("Say one.", "One."), Shot("Say two.", "Two.")))
    turns = body(Wire("chat"), shown)["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2 + ["user"]
    texts = ["Say one.", "One.", "Say two.", "Two.", "Say it."]
    assert [turn["content"] for turn in turns] == texts
    assert body(Wire("completions"), shown)["prompt"] == (
        f"Say one.{ANSWER} One.{STOP[0]}Say two.{ANSWER} Two.{STOP[0]}Say it.{ANSWER}"
    )


def test_token_ids_go_out_as_they_are() -> None:
    wire = Wire("completions", render=lambda rs: [[7, len(r.prompt)] for r in rs])
    assert body(wire, PLAIN) == SAMPLED | {"prompt": [7, 7], "add_special_tokens": False}
    # Without a count the server's tokens are those that were sent.
    answer = wire.read(answered({"text": "four", "finish_reason": "stop"}), [7, 1, 3])
    assert (answer.prompt_tokens, answer.n_tokens) == (3, 1)


def answered(*choices: dict[str, Any], **usage: int) -> bytes:
    return json.dumps({"choices": choices, "usage": usage}).encode()


def test_an_answer_has_the_servers_counts() -> None:
    choice = {"index": 0, "text": "twelve chars", "finish_reason": "length"}
    payload = answered(choice, prompt_tokens=10, completion_tokens=9)
    assert Wire("completions").read(payload, "x") == Completion("twelve chars", "length", 10, 9)


TEXT, THOUGHTS = "an answer without text", "an answer of nothing but thoughts"


@pytest.mark.parametrize(
    ("turn", "lacks"),
    [
        ({"content": None}, TEXT),
        ({"content": "\u200b\ufeff\x00"}, TEXT),
        ({"content": None, "reasoning_content": "Let me see."}, THOUGHTS),
        ({"content": "<think>Let me see.</think>\n\n"}, THOUGHTS),
        ({"content": "Let me see.</thinking> "}, THOUGHTS),
        ({"content": "<think>Let me see."}, THOUGHTS),
        ({"content": [{"type": "thinking", "thinking": []}], "thinking": "Hm."}, THOUGHTS),
        ({"content": None, "refusal": "No."}, f"{TEXT}, but with a refusal"),
        ({"content": None, "tool_calls": [{"function": {}}]}, f"{TEXT}, but with a call of a tool"),
    ],
)
def test_an_answer_without_a_text_says_what_it_has_instead(
    turn: dict[str, Any], lacks: str
) -> None:
    payload = answered({"message": turn, "finish_reason": "stop"}, completion_tokens=9)
    answer = Wire("chat").read(payload, "x")
    assert (answer.lacks, answer.finish_reason, answer.n_tokens) == (lacks, "stop", 9)
    payload = answered({"message": turn, "finish_reason": "length"})
    answer = Wire("chat").read(payload, "x")
    assert answer.lacks == (f"{lacks}: raise max_tokens" if lacks == THOUGHTS else lacks)


@pytest.mark.parametrize(
    ("turn", "raw"),
    [
        ({"content": "A cat.", "reasoning_content": "A dog."}, "A cat."),
        ({"content": "A dog.</think>A cat."}, "A dog.</think>A cat."),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "A dog."}]},
                         {"type": "text", "text": "A "}, {"type": "text", "text": "cat."}]},
            "A cat.",
        ),
    ],
)  # fmt: skip
def test_the_final_answer_is_the_content(turn: dict[str, Any], raw: str) -> None:
    answer = Wire("chat").read(answered({"message": turn, "finish_reason": "stop"}), "x")
    assert (answer.raw, answer.lacks) == (raw, "")


GOOD = {"index": 0, "text": "a", "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        *((payload, Malformed) for payload in (b"", b" \n", b'{"choices": [{"te', b"\xff\xfe")),
        *((payload, Malformed) for payload in (b"[" * 100_000, b"[1]", b'{"object": "x"}')),
        *((payload, Malformed) for payload in (b'{"choices": null}', b'{"choices": ["a"]}')),
        (answered(GOOD | {"text": 7}), Malformed),
        (answered(GOOD | {"finish_reason": "abort"}), Malformed),
        (answered(GOOD | {"finish_reason": "content_filter"}), Withheld),
        (answered(GOOD, GOOD), Malformed),
    ],
)
def test_what_is_no_answer_is_told_apart(payload: bytes, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        Wire("completions").read(payload, "x")


@pytest.mark.parametrize("count", [True, -5, 2.5, "7", None, 10**30])
def test_a_count_of_tokens_that_cannot_be_is_none(count: Any) -> None:
    payload = answered(GOOD | {"text": "x" * 8}, prompt_tokens=count, completion_tokens=count)
    answer = Wire("completions").read(payload, "x" * 40)
    assert (answer.prompt_tokens, answer.n_tokens) == (10, 2)


@given(st.binary(max_size=200))
def test_no_body_is_worse_than_malformed(payload: bytes) -> None:
    for wire in (Wire("chat"), Wire("completions")):
        with pytest.raises((Malformed, Withheld)):
            wire.read(payload, "x")
    assert len(message(payload)) <= 200


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b'{"error": {"message": "too\\n long", "code": 400}}', "too long"),
        (b'{"error": "model is loading"}', "model is loading"),
        (b'{"detail": [{"loc": ["body"]}]}', '[{"loc": ["body"]}]'),
        (b"<html>\n<b>502</b>", "<html> <b>502</b>"),
        (b"", ""),
    ],
)
def test_a_refusals_message_is_found(payload: bytes, words: str) -> None:
    assert message(payload) == words


def test_a_secret_is_left_out_before_a_message_is_cut() -> None:
    payload = b"x" * 195 + b" SECRETKEY is wrong"
    assert message(payload, "SECRETKEY") == "x" * 195 + " … is"
    payload = b'{"error": {"message": "overloaded, KEY"}}'
    assert error_message(payload, "KEY") == "overloaded, …"
    assert error_message(b'{"error": null, "choices": []}', "KEY") == ""
