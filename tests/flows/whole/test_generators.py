"""Recipes whose positives a fitted generator writes in the run's own process."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import until
from tiny_generators import tiny_causal
from tiny_run import Tiny, ended_well, query, start, tercet

# After so many answers of its own, a run waits to be killed.
HELD = """
import time
from tercet.flows.cli import main
from tercet.storage.answers import Pool
real, added = Pool.add, []
def add(self, values):
    if len(added) == 70:
        time.sleep(3600)
    added.append(values)
    return real(self, values)
Pool.add = add
main()
"""


@pytest.fixture(scope="module")
def vocabulary(tiny: Tiny) -> list[str]:
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    return sorted({word for row in texts for word in " ".join(row.values()).split()})


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory, vocabulary: list[str]) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "writer", vocabulary)


@pytest.fixture
def recipe(tiny: Tiny, tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe with this generator, which paraphrases 120 anchors twice."""

    def write(model: Path | str, settings: Any = (), name: str = "writes", **changes: Any) -> Path:
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "name": "writes",
            "sample": {"rows": 120},
            "generators": {"small": {"model": str(model), **dict(settings)}},
            "synthesise": {
                "paraphrase": {"generator": "small", "per_unit": 2},
                "entity_swap": None,
            },
            "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
        return path

    return write


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    until = () if "--until" in options else ("--until", "triplets")
    return ["run", str(recipe), "--no-server", "--store", str(store), *until, *options]


def written(store: Path) -> set[str]:
    """The answers in journals, by their digests; a run seals those of earlier ones."""
    lines = [
        line
        for file in (store / "responses").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return {json.loads(line)["request_digest"] for line in lines}


def test_a_generators_texts_go_the_way_of_a_language_models(
    recipe: Callable[..., Path], causal: Path, tmp_path: Path
) -> None:
    path, store = recipe(causal), tmp_path / "store"
    place = ("--store", str(store))
    ended_well(tercet("try", str(path), "--method", "paraphrase", "-n", "3", *place))
    assert "asks 237 rows (3 " in ended_well(tercet("plan", str(path), *place)).stdout
    ended_well(tercet(*words(path, store)))
    # The prompt is the bare sentence, and two generations of one differ by their seeds.
    assert query(
        store,
        "SELECT count(*), count(DISTINCT request_digest), count(DISTINCT prompt), "
        "bool_and(g.prompt = s.text), bool_and(starts_with(model, 'small@')) "
        "FROM generations g JOIN sentences s USING (sentence_id) WHERE method = 'paraphrase'",
    ) == [(240, 240, 120, True, True)]
    ((different,),) = query(
        store,
        "SELECT count(*) FROM (SELECT sentence_id FROM generations WHERE method = 'paraphrase' "
        "GROUP BY 1 HAVING count(DISTINCT raw) = 2)",
    )
    assert different > 60
    assert query(store, "SELECT count(*), min(endpoint) FROM responses") == [(240, "local")]
    ((ended,),) = query(
        store,
        "SELECT count(*) FROM (SELECT generation_id FROM candidates WHERE method = 'paraphrase' "
        "UNION SELECT row_id FROM rejects WHERE stage = 'parse')",
    )
    assert ended >= 240
    # More generations of a sentence leave those that it has.
    asked = {"generator": "small", "per_unit": 3}
    ended_well(tercet(*words(recipe(causal, synthesise={"paraphrase": asked}), store)))
    assert query(store, "SELECT count(*) FROM responses") == [(360,)]


def test_killed_while_it_writes_it_asks_for_no_row_twice(
    recipe: Callable[..., Path], causal: Path, tmp_path: Path
) -> None:
    path, store = recipe(causal), tmp_path / "store"
    known: set[str] = set()
    for _ in range(3):
        child = start(*words(path, store), script=HELD)
        reached = until(lambda: len(written(store) - known) == 70 or child.poll() is not None, 600)  # noqa: B023
        assert child.poll() is None, child.communicate()
        assert reached
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        before = len(known)
        known = {row for (row,) in query(store, "SELECT request_digest FROM responses")}
        assert len(known) == before + 70
    ended_well(tercet(*words(path, store)))
    assert query(store, "SELECT count(*), count(DISTINCT request_digest) FROM responses") == [
        (240, 240)
    ]
    again = tmp_path / "undisturbed"
    ended_well(tercet(*words(path, again)))
    own = "SELECT sentence_id, request_digest, raw FROM generations ORDER BY ALL"
    assert query(store, own) == query(again, own)


def test_a_generator_made_in_the_recipe_writes_with_noise(
    recipe: Callable[..., Path], causal: Path, tmp_path: Path
) -> None:
    fit = {"form": "vaegpt", "init": str(causal), "max_length": 96}
    fit |= {"max_steps": 2, "batch_size": 4, "pairs": {"corpora": ["prose"]}}
    # Without draws, noise alone tells the generations of a sentence apart: W of 5 is much of it.
    fit["vaegpt"] = {"noise_weight": 5.0}
    settings = {"temperature": 0, "beams": 1, "max_tokens": 12}
    path = recipe(
        "writer", settings, models={"writer": {"fit_generator": fit}}, sample={"rows": 20}
    )
    store = tmp_path / "store"
    ended_well(tercet(*words(path, store, "--until", "parse")))
    ((count, different),) = query(
        store,
        "SELECT count(*), count(DISTINCT (sentence_id, raw)) FROM generations "
        "WHERE method = 'paraphrase'",
    )
    assert count == 40
    assert different > 25
    # The generator's version is an input of what it wrote.
    assert query(
        store,
        "SELECT count(*) FROM lineage l JOIN artifacts a ON a.version = l.parent "
        "WHERE a.step = 'fit_generator.writer' AND l.child IN "
        "(SELECT version FROM artifacts WHERE step = 'synthesise.paraphrase')",
    ) == [(1,)]
