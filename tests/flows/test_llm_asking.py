"""Runs against an endpoint that is a real HTTP server of ours: kills, ceilings, faults, plans."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error
from tiny_run import Tiny, digest_of, ended_well, query, start, states, tercet

# The server says each prompt in capitals: a prompt of the sentence alone gives a sentence back.
PROMPT = "{{ sentence }}"


@pytest.fixture
def recipe(tiny: Tiny, tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe that asks the endpoint `url` two methods about 120 anchors."""

    def write(url: str, name: str = "asks", prompt: str = PROMPT, **asking: Any) -> Path:
        own = tmp_path / f"{name}.jinja"
        own.write_text(prompt)
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "name": "asks",
            "sample": {"rows": 120},
            "llm": {"name": "capitals", "api": "completions"},
            "synthesise": {"rewrite": {"prompt": str(own)}, "antisense": None},
            "select": {"positive_min": 0.0, "negative_max": 1.0},
        }
        content["run"]["llm"] = {"endpoints": [url], "concurrency": 16, "list_size": 4} | asking
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return write


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


@contextmanager
def killed_after(server: FaultyServer, rows: int, *arguments: str) -> Iterator[int]:
    """Starts `tercet`, kills it once the server has been asked so many rows; what was open then."""
    child = start(*arguments)
    deadline = time.monotonic() + 60
    while sum(server.times_asked().values()) < rows and time.monotonic() < deadline:
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    yield server.log[-1].open_rows


def repeated(server: FaultyServer) -> int:
    """Rows asked more than once."""
    return sum(times - 1 for times in server.times_asked().values())


def test_a_killed_run_asks_again_only_for_what_was_open(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer(delay=0.2) as server:
        path = recipe(server.url)
        store = tmp_path / "store"
        arguments = words(path, store, "--until", "triplets")
        open_rows = 0
        for rows in (30, 110, 190):
            with killed_after(server, rows, *arguments) as left:
                open_rows += left
        ended_well(tercet(*arguments))
        assert len(server.times_asked()) == 240
        assert 0 < repeated(server) <= open_rows
        again = digest_of(store, "generations", "generation_id")
    with FaultyServer() as server:
        other = tmp_path / "undisturbed"
        path = recipe(server.url)
        ended_well(tercet(*words(path, other, "--until", "triplets")))
        assert repeated(server) == 0
        assert digest_of(other, "generations", "generation_id") == again


def test_a_ceiling_stops_cleanly_and_can_be_raised(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url, max_tokens_total=600)
        done = tercet(*words(path, store, "--until", "triplets"))
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert "ceiling run.llm.max_tokens_total of 600 is reached" in last
        assert "Resume with: tercet run" in last
        ((spent, answers),) = query(
            store, "SELECT sum(prompt_tokens + n_tokens), count(*) FROM responses"
        )
        assert 600 <= spent < 1200
        # The same again spends nothing.
        asked = len(server.log)
        assert tercet(*words(path, store, "--until", "triplets")).returncode == 1
        assert len(server.log) == asked
        path = recipe(server.url, max_tokens_total=10**9)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) <= 16
        assert query(store, "SELECT count(*) FROM responses") == [(240,)]
        assert answers < 240


def test_money_is_counted_by_the_recipes_prices(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url, price_in=2.0, price_out=10.0, max_cost=1.0)
        done = ended_well(tercet(*words(path, store, "--until", "triplets")))
        rows = query(
            store, "SELECT method, answers, prompt_tokens, n_tokens, cost FROM usage ORDER BY 1"
        )
        assert [row[:2] for row in rows] == [("antisense", 120), ("rewrite", 120)]
        for _, answers, asked, said, cost in rows:
            assert said == 2 * answers
            assert cost == pytest.approx((2 * asked + 10 * said) / 1e6)
        assert "rewrite" in done.stdout
        assert f"{rows[1][4]:.4f}" in done.stdout


def test_a_row_that_always_fails_is_a_reject_and_the_others_arrive(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    poisoned: set[str] = set()
    counts = {"limited": 0}

    def behave(seen: Seen) -> Reply | None:
        if not poisoned:
            poisoned.add(seen.prompts[0])
        if poisoned & set(seen.prompts):
            return error(500, "this one breaks me")
        counts["limited"] += 1
        if counts["limited"] % 7 == 0:
            return error(429, "slowly", Retry_After="0.05")
        return None

    with FaultyServer(behave) as server:
        store = tmp_path / "store"
        ended_well(tercet(*words(recipe(server.url, tries=3), store, "--until", "triplets")))
        rejects = query(store, "SELECT reason, detail FROM rejects WHERE stage = 'synthesise'")
        assert len(rejects) == 1
        reason, detail = rejects[0]
        assert reason == "failed"
        assert re.search(r"HTTP 500 after 3 tries.*this one breaks me", detail)
        assert query(
            store, "SELECT count(*) FROM generations WHERE request_digest IS NOT NULL"
        ) == [(239,)]
        ((retries,),) = query(store, "SELECT sum(retries) FROM usage")
        assert retries > 0


def test_an_endpoint_that_dies_stops_the_run_and_what_it_said_is_safe(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    answered = {"rows": 0}

    def behave(seen: Seen) -> Reply | None:
        answered["rows"] += len(seen.prompts)
        return error(503, "going down") if answered["rows"] > 60 else None

    with FaultyServer(behave) as server:
        store = tmp_path / "store"
        path = recipe(server.url, patience=3)
        done = tercet(*words(path, store, "--until", "triplets"))
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert "HTTP 503" in last
        assert "safe" in last
        ((kept,),) = query(store, "SELECT count(*) FROM responses")
        assert 0 < kept <= 60
        server.behave = lambda seen: None
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        answered_once = query(store, "SELECT count(*) FROM responses")
        assert answered_once == [(240,)]


def plan_of(path: Path, store: Path) -> str:
    return ended_well(tercet("plan", str(path), "--store", str(store))).stdout


def test_a_plan_tells_what_a_change_costs(recipe: Callable[..., Path], tmp_path: Path) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        first = plan_of(path, store)
        assert "antisense will ask is told once ingest, sample is made" in first
        ended_well(tercet(*words(path, store, "--until", "sample")))
        before = plan_of(path, store)
        assert re.search(r"synthesise.rewrite asks 120 rows: about [\d,]+ tokens", before)
        assert "at most 15,360 of answers" in before
        assert server.log == []
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert "asks" not in plan_of(path, store).split("steps:")[1]
        # One word of one prompt: that method alone, at the length its answers have had.
        recipe(server.url, prompt="Again: {{ sentence }}")
        changed = plan_of(path, store)
        assert re.search(r"synthesise.rewrite +run +file prompt", changed)
        assert re.search(r"synthesise.antisense +reuse", changed)
        assert re.search(r"rewrite asks 120 rows: about [\d,]+ tokens of prompts, 240 of", changed)
        assert "antisense asks" not in changed
        recipe(server.url)
        # A check that changed asks nothing.
        checked = yaml.safe_load(path.read_text()) | {"parse": {"min_words": 3}}
        path.write_text(yaml.safe_dump(checked))
        assert "asks" not in plan_of(path, store).split("steps:")[1]
        asked = len(server.log)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert len(server.log) == asked
        assert states(store)["parse"] == "made"


def test_try_shows_prompts_with_answers_that_are_not_paid_again(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        options = ("--store", str(store))
        done = ended_well(tercet("try", str(path), "--method", "antisense", "-n", "3", *options))
        assert done.stdout.count("── answered") == 3
        assert sum(server.times_asked().values()) == 3
        ended_well(tercet("try", str(path), "--method", "antisense", "-n", "5", *options))
        assert sum(server.times_asked().values()) == 5
        wrong = tercet("try", str(path), "--method", "entity_swap", *options)
        assert wrong.returncode == 2
        assert "it has: rewrite, antisense" in wrong.stderr
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) == 0
