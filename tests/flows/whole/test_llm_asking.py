"""Runs that ask a real HTTP server of ours: kills, ceilings, faults of rows and of endpoints.

TERCET_ODD_ANSWERS is how many runs of 30 rows are tried against odd answers, 2 if it is not set.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error, says, silent_port, until
from llm_recipe import CONCURRENCY, repeated, words
from odd_answers import odd, right
from tiny_run import digest_of, ended_well, query, start, tercet

from tercet.flows.pipeline.fingerprints import fingerprints
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage.store import open_store

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


def test_a_row_that_always_fails_is_a_reject_and_the_others_arrive(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    poisoned: set[str] = set()
    counts = {"limited": 0}
    refused: Counter[str] = Counter()

    def behave(seen: Seen) -> Reply | None:
        if not poisoned:
            poisoned.add(seen.prompts[0])
        if poisoned & set(seen.prompts):
            return error(500, "this one breaks me")
        counts["limited"] += 1
        # A prompt that is refused again and again would be too much by itself.
        if counts["limited"] % 7 == 0 and all(refused[prompt] < 2 for prompt in seen.prompts):
            refused.update(seen.prompts)
            return error(429, "slowly", Retry_After="0.05")
        return None

    with FaultyServer(behave) as server:
        store = tmp_path / "store"
        ended_well(tercet(*words(recipe(server.url, tries=3), store, "--until", "triplets")))
        (reject,) = query(store, "SELECT reason, detail FROM rejects WHERE stage = 'synthesise'")
        assert reject[0] == "failed"
        assert "this one breaks me" in reject[1]
        assert query(
            store, "SELECT count(*) FROM generations WHERE request_digest IS NOT NULL"
        ) == [(239,)]
        assert query(store, "SELECT sum(retries) > 0 FROM usage") == [(True,)]


def test_an_endpoint_that_dies_stops_the_run_and_what_it_said_is_safe(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    answered = {"rows": 0}

    def behave(seen: Seen) -> Reply | None:
        answered["rows"] += len(seen.prompts)
        return error(503, "going down") if answered["rows"] > 60 else None

    with FaultyServer(behave) as server:
        store = tmp_path / "store"
        # For one exchange too: a server that is held up for a moment is no silent one.
        path = recipe(server.url, patience=15)
        done = tercet(*words(path, store, "--until", "triplets"))
        assert done.returncode == 1
        assert "HTTP 503" in done.stderr.splitlines()[-1]
        assert 0 < answers(store) <= 60
        server.behave = lambda seen: None
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert answers(store) == 240


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


def test_of_three_endpoints_one_is_down_and_one_talks_nonsense(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """The run goes on, and its warnings name the addresses."""
    well_says, ready, done = right(random.Random(1)), threading.Event(), threading.Event()

    def well(seen: Seen) -> Reply | None:
        reply = well_says(seen)
        assert reply is not None
        if seen.number < 15:
            return reply
        # From here on, and until it has twenty rows, the other has its turn.
        ready.set()
        return Reply(200, reply.body, held=done, after=600)

    def nonsense(seen: Seen) -> Reply:
        if seen.number >= 20:
            done.set()
        return Reply(200, b"<html>Hi.</html>", held=ready, after=600)

    with silent_port() as port, FaultyServer(well) as good, FaultyServer(nonsense) as bad:
        urls = [f"http://127.0.0.1:{port}/v1", good.url, bad.url]
        # One more try of another endpoint than that of the page.
        path = recipe(good.url, endpoints=urls, timeout=600, patience=600, tries=4, list_size=1)
        path = edited(path, "three", llm={"name": "well", "api": "chat"}, sample={"rows": 60})
        store = tmp_path / "store"
        ended_well(tercet(*words(path, store, "--until", "candidates")))
    found = query(store, "SELECT key, count, total FROM warnings WHERE kind = 'no_text'")
    assert {key for key, *_ in found} >= {urls[0], urls[2]}
    assert all(0 < count <= total for _, count, total in found)
    assert query(store, "SELECT count(*) > 100 FROM candidates WHERE method != 'random'") == [
        (True,)
    ]


def is_plain(text: str) -> bool:
    return not [c for c in text if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_an_endpoint_says_every_row_ends_as_one_thing(
    recipe: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    store = tmp_path / "store"
    with FaultyServer(odd(random.Random(seed))) as server:
        asking = {"concurrency": 8, "tries": 2, "timeout": 1, "patience": 20, "list_size": 1}
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


def test_how_answers_are_drawn_matters_only_where_it_is_used(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """A method with a sampling of its own does not change with the recipe's."""
    path = recipe("http://127.0.0.1:9/v1")
    methods = yaml.safe_load(path.read_text())["synthesise"]
    methods["antisense"] = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 30}

    def versions(temperature: float) -> dict[str, str | None]:
        llm = {"name": "capitals", "api": "completions", "temperature": temperature}
        changed = edited(path, "drawn", synthesise=methods, llm=llm)
        plan = prepare(RunArguments(str(changed), str(tmp_path / "store"), until="generations"))
        store = open_store(str(tmp_path / "store"))
        found = fingerprints(plan.steps, plan.recipe.seed, store)
        return {name: one.version for name, one in found.items()}

    before, after = versions(0.5), versions(0.7)
    assert {name for name in before if before[name] != after[name]} == {"synthesise.rewrite"}
