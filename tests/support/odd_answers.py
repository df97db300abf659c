"""Answers and faults of an endpoint, drawn at random, right ones among them."""

import json
import random
from collections.abc import Callable
from typing import Any

from faulty_server import Reply, Seen, error

DAMAGE = ("\x00", "\x1b[31m", "\x07", "\ufeff", "\u200b", "\ufffd", "\ud83d", "\udc00", "\\u00e9",
          "\\n", "\\ud83d", "&amp;", "&#39;", "&nbsp;", "cafÃ©", "â€™", "\u202e", "\u2028", "\x9b",
          "e\u0301", "<|im_end|>", "</s>", "<b>", "\\", "\"", "\r\n", "\t", "ﬀ", "中文",
          "😀")  # fmt: skip
AROUND = ("{}", '"{}"', "```\n{}\n```", "<think>Hm.</think>{}", "Hm.</think>\n{}", "<think>{}",
          "Sure, here it is: {}", "{}\n\nI kept the meaning.", '{{"sentence": "{}"}}', "- {}",
          "{} {}", "I'm sorry, but I can't rewrite this.", "1. {}", "**{}**")  # fmt: skip
NO_TEXT: tuple[Any, ...] = (None, "", " ", "\n\n", "\u200b", "\x00", "<think>Hm.</think>", [],
                            [{"type": "thinking", "thinking": "Hm."}])  # fmt: skip
NO_STRING: tuple[Any, ...] = (7, True, {"text": "A."}, [{"type": "text"}], ["A."], [None])
BESIDE: tuple[dict[str, Any], ...] = (
    {"reasoning_content": "Let me see."}, {"reasoning": "Let me see."}, {"refusal": "No."},
    {"tool_calls": [{"id": "1", "function": {"name": "say", "arguments": "{}"}}]},
    {"reasoning_content": None, "tool_calls": []},
)  # fmt: skip
FINISH = ("stop", "length", None, "abort", "error", "content_filter", "tool_calls", "odd", 7)
BODIES = (b"", b" ", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": [7]}', b"\xff\xfe{",
          b"<html><body>Bad gateway</body></html>", b'{"choices": [{}]}', b"[" * 9999,
          b'{"error": {"message": "out of \x1b[31mmemory"}}', b"data: {}\n\n",
          b'{"choices": [{"index": 1, "message": {"content": "A."}}]}')  # fmt: skip
STATUS = (400, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504, 529)
USAGE: tuple[Any, ...] = ({}, None, 7, {"prompt_tokens": -1, "completion_tokens": "x"},
                          {"prompt_tokens": 10**30, "completion_tokens": None})  # fmt: skip


def odd(draw: random.Random) -> Callable[[Seen], Reply | None]:
    """Behaviour of a server: half of what it says is right. A word as a probe is answered."""

    good = right(draw)

    def behave(seen: Seen) -> Reply | None:
        if seen.prompts[0].startswith("Say yes.") or draw.random() < 0.5:
            return good(seen)
        return draw.choice((_answer, _answer, _answer, _fault))(draw, seen)

    return behave


def right(draw: random.Random) -> Callable[[Seen], Reply | None]:
    """Behaviour of a server that says the words of each prompt in another order."""

    def behave(seen: Seen) -> Reply | None:
        words = seen.prompts[0].split()
        message = {"content": " ".join(draw.sample(words, len(words)))}
        return Reply(body=json.dumps({"choices": [{"message": message}]}).encode())

    return behave


def _answer(draw: random.Random, seen: Seen) -> Reply:
    said = _said(draw, seen.prompts[0])
    message: dict[str, Any] = {"role": "assistant", "content": said}
    kind = draw.random()
    if kind < 0.3:
        message["content"] = draw.choice(NO_TEXT)
    elif kind < 0.35:
        message["content"] = draw.choice(NO_STRING)
    elif kind < 0.4:
        del message["content"]
    if draw.random() < 0.3:
        message |= draw.choice(BESIDE)
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if draw.random() < 0.2:
        choice["finish_reason"] = draw.choice(FINISH)
    whole: dict[str, Any] = {"choices": [choice], "usage": {"completion_tokens": 3}}
    if draw.random() < 0.2:
        whole["usage"] = draw.choice(USAGE)
    if draw.random() < 0.05:
        whole["choices"] *= 2
    return Reply(
        body=json.dumps(whole, ensure_ascii=draw.random() < 0.5).encode("utf-8", "replace")
    )


def _said(draw: random.Random, sentence: str) -> str:
    words = sentence.split()
    draw.shuffle(words)
    for _ in range(draw.choice((0, 1, 1, 3))):
        place = draw.randrange(len(words) + 1)
        words.insert(place, draw.choice(DAMAGE))
    text = draw.choice((" ", " ", "")).join(words) * draw.choice((1, 1, 1, 1, 200))
    around = draw.choice(AROUND) if draw.random() < 0.5 else "{}"
    return around.format(*[text] * around.count("{}"))


def _fault(draw: random.Random, seen: Seen) -> Reply:
    kind = draw.randrange(5)
    if kind == 0:
        pause = draw.choice(("0", "0.1", "-1", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", ""))
        return error(draw.choice(STATUS), "out of \x1b[31morder", Retry_After=pause)
    if kind == 1:
        return Reply(reset=True)
    if kind == 2:
        return Reply(body=draw.choice(BODIES))
    if kind == 3:
        whole = json.dumps({"choices": [{"message": {"content": seen.prompts[0]}}]}).encode()
        return Reply(body=whole, share=draw.choice((0.0, 0.3, 0.9)))
    return Reply(after=draw.choice((0.05, 0.2, 30.0)))
