"""Runs against an endpoint that is a real HTTP server of ours: kills, ceilings, faults."""

import asyncio
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from even_time import EvenLoop
from faulty_server import FaultyServer, Reply, Seen, error, says, until
from llm_recipe import CONCURRENCY, repeated, words
from tiny_run import digest_of, ended_well, query, start, tercet

from tercet.flows.pipeline.fingerprints import fingerprints
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_step
from tercet.models.llm.errors import Stopped
from tercet.storage.store import open_store
from tercet.tasks.stage import silent


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
        assert repeated(server) <= CONCURRENCY
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
        # For one exchange too: a server that is held up for a moment is no silent one.
        path = recipe(server.url, patience=15)
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


def test_two_runs_at_once_do_not_both_pay(recipe: Callable[..., Path], tmp_path: Path) -> None:
    """Two recipes that differ in what they ask about, so that they share no artifact."""
    with FaultyServer(delay=0.05) as server:
        store = tmp_path / "store"
        first = recipe(server.url)
        ended_well(tercet(*words(first, store, "--until", "sample")))
        content = yaml.safe_load(first.read_text())
        content["synthesise"]["rewrite"]["weight"] = 0.9
        content["synthesise"]["antisense"] = {"weight": 0.9}
        second = tmp_path / "second.yaml"
        second.write_text(yaml.safe_dump(content))
        children = [start(*words(path, store, "--until", "triplets")) for path in (first, second)]
        for child in children:
            _, stderr = child.communicate(timeout=1200)
            assert child.returncode == 0, stderr
        assert len(server.times_asked()) == 240
        assert repeated(server) == 0


def test_a_prompt_that_is_edited_while_the_run_goes_on_is_refused(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    edited = threading.Event()
    with FaultyServer(lambda seen: Reply(200, says(seen), after=3600, held=edited)) as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        child = start(*words(path, store, "--until", "triplets"))
        assert until(lambda: len(server.log) >= 2 or child.poll() is not None, 600)
        recipe(server.url, prompt="Edited: {{ sentence }}")
        edited.set()
        _, stderr = child.communicate(timeout=1200)
        assert child.returncode == 2, stderr
        assert "changed during the run: run again" in stderr.splitlines()[-1]
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        prompts = query(store, "SELECT DISTINCT prompt[:7] FROM generations WHERE method='rewrite'")
        assert prompts == [("Edited:",)]


def test_a_stage_that_failed_can_be_tried_again_in_the_same_run(
    recipe: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Prefect does with `run.retries`."""
    # Client and server share their time, so that the server is never late.
    monkeypatch.setattr(asyncio, "new_event_loop", EvenLoop)
    failing = {"now": True}
    with FaultyServer(lambda seen: error(503, "down") if failing["now"] else None) as server:
        path = recipe(server.url, patience=1)
        plan = prepare(RunArguments(str(path), str(tmp_path / "store"), until="generations"))
        with open_run(plan) as handle:
            for step in plan.steps:
                if step.stage.asks is not None and failing["now"]:
                    with pytest.raises(Stopped, match="HTTP 503"):
                        run_step(handle, step, silent)
                    failing["now"] = False
                run_step(handle, step, silent)
        assert query(tmp_path / "store", "SELECT count(*) FROM responses") == [(240,)]


def test_how_answers_are_drawn_matters_only_where_it_is_used(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """A method with a sampling of its own does not change with the recipe's."""

    def versions(temperature: float) -> dict[str, str | None]:
        path = recipe("http://127.0.0.1:9/v1")
        content = yaml.safe_load(path.read_text())
        own = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 30}
        content["synthesise"]["antisense"] = own
        content["llm"]["temperature"] = temperature
        path.write_text(yaml.safe_dump(content))
        plan = prepare(RunArguments(str(path), str(tmp_path / "store"), until="generations"))
        store = open_store(str(tmp_path / "store"))
        found = fingerprints(plan.steps, plan.recipe.seed, store)
        return {name: one.version for name, one in found.items()}

    before, after = versions(0.5), versions(0.7)
    assert {name for name in before if before[name] != after[name]} == {"synthesise.rewrite"}


def test_rules_know_nothing_of_language_models(tmp_path: Path) -> None:
    """An edit of the client or a prompt remakes no rule, nor any other stage."""
    plan = prepare(RunArguments("quickstart", str(tmp_path / "store")))
    found = fingerprints(plan.steps, plan.recipe.seed, open_store(str(tmp_path / "store")))
    for name, one in found.items():
        llm = [m for m in one.modules if ".llm" in m or ".prompted" in m or m.endswith("asking")]
        known = {"tercet.models.llm", "tercet.models.llm.errors"}
        if name == "parse":
            # It judges what any generator wrote, by what language models get wrong.
            checks = {"", ".checks", ".query_checks", ".damage", ".wording"}
            known |= {f"tercet.models.prompted{module}" for module in checks}
        # `isolation` tells faults of the recipe from those of a row by the error's class.
        assert set(llm) <= known, name
