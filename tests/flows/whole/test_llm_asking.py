"""Runs that ask a real HTTP server of ours: kills, ceilings, faults of rows and of endpoints; and
what `plan` and `try` tell of them beforehand.

TERCET_ODD_ANSWERS is how many runs of 30 rows are tried against odd answers, 2 if it is not set.
"""

import json
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error, says, until
from llm_recipe import CONCURRENCY, repeated, words
from tiny_run import digest_of, ended_well, query, start, states, tercet

# "synthesise.rewrite asks 120 rows: …", but not what is asked at most.
ASKS = re.compile(r"(\S+) asks ([\d,]+) rows", re.MULTILINE)

RUNS = int(os.environ.get("TERCET_ODD_ANSWERS", "2"))

# What became of each row: a candidate, a refusal of its answer, or a failure to get one.
ENDS = """
    SELECT a.text,
        (SELECT count(*) FROM candidates c WHERE c.sentence_id = a.sentence_id
           AND c.method = 'rewrite') AS candidates,
        (SELECT count(*) FROM rejects r JOIN generations g ON g.generation_id = r.row_id
         WHERE r.stage = 'parse' AND g.method = 'rewrite' AND g.sentence_id = a.sentence_id
           AND r.reason <> '' AND r.detail <> '') AS refused,
        (SELECT count(*) FROM rejects r WHERE r.stage = 'synthesise' AND r.reason = 'failed'
           AND r.row_id = a.sentence_id AND r.detail <> '') AS failed
    FROM sentences a
"""


def answers(store: Path) -> int:
    return int(query(store, "SELECT count(*) FROM responses")[0][0])


def edited(path: Path, name: str, **changes: Any) -> Path:
    """A recipe beside that one, with other keys."""
    other = path.with_name(f"{name}.yaml")
    other.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))
    return other


def kill_after(server: FaultyServer, rows: int, *arguments: str) -> None:
    """Starts `tercet` and kills it while the server holds back what it is asked after so many."""
    server.behave = lambda seen: (
        Reply(after=3600) if sum(server.times_asked().values()) >= rows else None
    )
    child = start(*arguments)
    reached = until(
        lambda: sum(server.times_asked().values()) >= rows or child.poll() is not None, 600
    )
    assert child.poll() is None, child.communicate()
    assert reached
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    # What it had sent by then has arrived.
    server.settle()


def test_a_killed_run_asks_again_only_for_what_was_open(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer(delay=0.2) as server:
        path = recipe(server.url)
        store = tmp_path / "store"
        arguments = words(path, store, "--until", "triplets")
        for n_kills, rows in enumerate((30, 110, 190), 1):
            kill_after(server, rows, *arguments)
            assert repeated(server) <= (n_kills - 1) * CONCURRENCY
        server.behave = lambda seen: None
        ended_well(tercet(*arguments))
        assert len(server.times_asked()) == 240
        assert 0 < repeated(server) <= n_kills * CONCURRENCY
        again = digest_of(store, "generations", "generation_id")
    with FaultyServer() as server:
        other = tmp_path / "undisturbed"
        path = recipe(server.url, price_in=2.0, price_out=10.0)
        ended_well(tercet(*words(path, other, "--until", "triplets")))
        assert repeated(server) == 0
        assert digest_of(other, "generations", "generation_id") == again
    # Money is counted by the recipe's prices.
    for asked, answered, cost in query(other, "SELECT prompt_tokens, n_tokens, cost FROM usage"):
        assert cost == pytest.approx((2 * asked + 10 * answered) / 1e6)


def test_a_ceiling_stops_cleanly_and_can_be_raised(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url, max_tokens_total=600)
        done = tercet(*words(path, store, "--until", "triplets"))
        assert done.returncode == 1
        assert "max_tokens_total" in done.stderr.splitlines()[-1]
        ((spent, before),) = query(
            store, "SELECT sum(prompt_tokens + n_tokens), count(*) FROM responses"
        )
        assert 600 <= spent < 1200
        # The same again spends nothing.
        asked = len(server.log)
        assert tercet(*words(path, store, "--until", "triplets")).returncode == 1
        assert len(server.log) == asked
        path = recipe(server.url, max_tokens_total=10**9)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) <= CONCURRENCY
        assert before < answers(store) == 240


def test_two_runs_at_once_do_not_both_pay(recipe: Callable[..., Path], tmp_path: Path) -> None:
    """Two recipes that differ in what they ask about, so that they share no artifact."""
    with FaultyServer(delay=0.05) as server:
        store = tmp_path / "store"
        first = recipe(server.url)
        ended_well(tercet(*words(first, store, "--until", "sample")))
        methods = yaml.safe_load(first.read_text())["synthesise"]
        methods = {"rewrite": {**methods["rewrite"], "weight": 0.9}, "antisense": {"weight": 0.9}}
        second = edited(first, "second", synthesise=methods)
        children = [start(*words(path, store, "--until", "triplets")) for path in (first, second)]
        for child in children:
            _, stderr = child.communicate(timeout=1200)
            assert child.returncode == 0, stderr
        assert len(server.times_asked()) == 240
        assert repeated(server) == 0


def test_a_prompt_that_is_edited_while_the_run_goes_on_is_refused(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    rewritten = threading.Event()
    with FaultyServer(lambda seen: Reply(200, says(seen), after=3600, held=rewritten)) as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        child = start(*words(path, store, "--until", "triplets"))
        assert until(lambda: len(server.log) >= 2 or child.poll() is not None, 600)
        recipe(server.url, prompt="Edited: {{ sentence }}")
        rewritten.set()
        _, stderr = child.communicate(timeout=1200)
        assert child.returncode == 2, stderr
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        prompts = query(store, "SELECT DISTINCT prompt[:7] FROM generations WHERE method='rewrite'")
        assert prompts == [("Edited:",)]


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
    text = _said(draw, seen.prompts[0])
    message: dict[str, Any] = {"role": "assistant", "content": text}
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


def is_plain(text: str) -> bool:
    return not [c for c in text if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_an_endpoint_says_every_row_ends_as_one_thing(
    recipe: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    store = tmp_path / "store"
    with FaultyServer(odd(random.Random(seed))) as server:
        asking = {"concurrency": 8, "tries": 2, "timeout": 1, "patience": 20}
        path = recipe(server.url, **asking)
        path = edited(
            path,
            "odd",
            sample={"rows": 30},
            llm={"name": f"odd-{seed}", "api": "chat"},
            synthesise={"rewrite": yaml.safe_load(path.read_text())["synthesise"]["rewrite"]},
        )
        arguments = words(path, store, "--until", "candidates")
        done = tercet(*arguments)
        assert is_plain(done.stdout + done.stderr)
        assert "Traceback" not in done.stderr
        server.behave = right(random.Random(seed))
        if done.returncode:
            # So many faults in succession that it gave up: what is recorded stays.
            assert done.returncode == 1, done.stderr
            ended_well(tercet(*arguments))
        asked = {prompt for seen in server.log for prompt in seen.prompts}
        ends = [row for row in query(store, ENDS) if row[0] in asked]
        assert len(ends) == 30
        assert [row for row in ends if sum(row[1:]) != 1] == []
        texts = query(store, "SELECT text FROM candidates WHERE method = 'rewrite'")
        assert all(is_plain(text) and "\n" not in text for (text,) in texts)
        failed = {row[0] for row in ends if row[3]}
        before = len(server.log)
        ended_well(tercet(*arguments, "--retry-failed"))
        # On a busy machine a right answer may be late, and asked for once more.
        again = {prompt for seen in server.log[before:] for prompt in seen.prompts}
        assert {prompt for prompt in again if not prompt.startswith("Say yes.")} == failed
    after = [row for row in query(store, ENDS) if row[0] in asked]
    assert [row for row in after if row[3] or sum(row[1:]) != 1] == []


def plan_of(path: Path, store: Path, *options: str) -> str:
    return ended_well(tercet("plan", str(path), "--store", str(store), *options)).stdout


def asks(path: Path, store: Path, *options: str) -> dict[str, int]:
    """Step to the rows that a plan says it will ask about."""
    lines = ASKS.findall(plan_of(path, store, *options))
    return {step: int(rows.replace(",", "")) for step, rows in lines}


def test_a_plan_tells_what_a_change_costs(recipe: Callable[..., Path], tmp_path: Path) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        # Before there is a sample nobody knows how many rows there are.
        assert asks(path, store) == {}
        ended_well(tercet(*words(path, store, "--until", "sample")))
        assert asks(path, store) == {"synthesise.rewrite": 120, "synthesise.antisense": 120}
        assert server.log == []
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert asks(path, store) == {}
        # One word of one prompt: that method alone, at the length its answers have had.
        recipe(server.url, prompt="Again: {{ sentence }}")
        assert asks(path, store) == {"synthesise.rewrite": 120}
        assert "240 answer" in plan_of(path, store)
        recipe(server.url)
        # Of another version all may be known: a part of the anchors here.
        assert asks(path, store, "--set", "synthesise.rewrite.weight=0.5") == {}
        # A check that changed asks nothing.
        path = edited(path, "asks", parse={"min_words": 3})
        assert asks(path, store) == {}
        asked = len(server.log)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert len(server.log) == asked
        assert states(store)["parse"] == "made"


def test_what_was_tried_is_not_paid_again(recipe: Callable[..., Path], tmp_path: Path) -> None:
    refused: list[str] = []

    def behave(seen: Seen) -> Reply | None:
        return error(500, "not this one") if seen.prompts[0] in refused else None

    with FaultyServer(behave) as server:
        path, store = recipe(server.url, tries=1), tmp_path / "store"
        options = ["--method", "rewrite", "--store", str(store), "-n", "4"]
        ended_well(tercet("try", str(path), *options))
        prompts = list(server.times_asked())
        # Its rows are of several parts.
        texts = [text for (text,) in query(store, "SELECT text FROM sentences")]
        assert len({texts.index(prompt.split("\n")[0]) // 150 for prompt in prompts}) >= 3
        refused.append(prompts[0])
        warmer = [*options, "--set", "llm.temperature=0.9"]
        ended_well(tercet("try", str(path), *warmer))
        refused.clear()
        asked = len(server.log)
        ended_well(tercet("try", str(path), *warmer))
        assert [seen.prompts for seen in server.log[asked:]] == [[prompts[0]]]
        # Nor does the run that follows ask about the four again.
        before = repeated(server)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) == before
        wrong = tercet("try", str(path), "--method", "entity_revision", "--store", str(store))
        assert wrong.returncode == 2
