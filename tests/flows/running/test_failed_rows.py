"""`tercet run --retry-failed` against a real HTTP server that fails some rows the first time."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_server import FaultyServer, Reply, Seen, error
from llm_recipe import words
from tiny_run import ended_well, query, states, tercet

pytestmark = pytest.mark.slow

FAILED = "SELECT count(*) FROM rejects WHERE stage = 'synthesise' AND reason = 'failed'"
ANSWERED = "SELECT count(*) FROM generations WHERE request_digest IS NOT NULL"


class Poisoned:
    """Breaks at the first `count` prompts that it sees, for as long as it is `ill`."""

    def __init__(self, count: int) -> None:
        self.count, self.ill = count, True
        self.prompts: set[str] = set()

    def __call__(self, seen: Seen) -> Reply | None:
        for prompt in seen.prompts:
            if len(self.prompts) < self.count:
                self.prompts.add(prompt)
        broken = self.ill and self.prompts & set(seen.prompts)
        return error(500, "this one breaks me") if broken else None


def succeeded(server: FaultyServer, poisoned: Poisoned) -> Counter[str]:
    """How often each prompt was asked that was never to fail."""
    return Counter({p: n for p, n in server.times_asked().items() if p not in poisoned.prompts})


@pytest.fixture
def poisoned() -> Poisoned:
    return Poisoned(3)


def test_failed_rows_are_asked_again_and_nothing_else_is(
    recipe: Callable[..., Path], poisoned: Poisoned, tmp_path: Path
) -> None:
    with FaultyServer(poisoned) as server:
        store = tmp_path / "store"
        # One prompt in a request, so that no other row shares in a failure.
        path = recipe(server.url, tries=2)
        arguments = words(path, store, "--until", "triplets")
        first = ended_well(tercet(*arguments))
        assert query(store, FAILED) == [(3,)]
        assert query(store, ANSWERED) == [(237,)]
        assert "--retry-failed" in first.stdout
        plan = ended_well(tercet("plan", str(path), "--store", str(store)))
        assert "3 failed rows" in plan.stdout
        before = server.times_asked()
        once = succeeded(server, poisoned)

        # Without the option all of it is reused, failed rows and all.
        poisoned.ill = False
        ended_well(tercet(*arguments))
        assert set(states(store).values()) == {"reused"}
        assert server.times_asked() == before

        ended_well(tercet(*arguments, "--retry-failed"))
        assert server.times_asked() - before == Counter(dict.fromkeys(poisoned.prompts, 1))
        assert succeeded(server, poisoned) == once
        assert query(store, FAILED) == [(0,)]
        assert query(store, ANSWERED) == [(240,)]
        made = states(store)
        assert made["ingest"] == "reused"
        assert {made["parse"], made["select"]} == {"made"}

        # What came of it is the recipe's result from now on.
        ended_well(tercet(*arguments))
        assert set(states(store).values()) == {"reused"}
        asked = server.times_asked()
        ended_well(tercet(*arguments, "--retry-failed"))
        assert set(states(store).values()) == {"reused"}
        assert server.times_asked() == asked


def test_rows_that_fail_again_stay_rejects_and_can_be_asked_once_more(
    recipe: Callable[..., Path], poisoned: Poisoned, tmp_path: Path
) -> None:
    with FaultyServer(poisoned) as server:
        store = tmp_path / "store"
        path = recipe(server.url, tries=2)
        arguments = words(path, store, "--until", "generations")
        ended_well(tercet(*arguments))
        asked = server.times_asked()
        ended_well(tercet(*arguments, "--retry-failed"))
        assert query(store, FAILED) == [(3,)]
        # As often as `tries` says, each; beside them a word that shows that the server lives.
        fresh = server.times_asked() - asked
        assert {p: n for p, n in fresh.items() if "Say yes." not in p} == dict.fromkeys(
            poisoned.prompts, 2
        )
        poisoned.ill = False
        ended_well(tercet(*arguments, "--retry-failed"))
        assert query(store, FAILED) == [(0,)]
        assert query(store, ANSWERED) == [(240,)]
