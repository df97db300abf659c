"""A recipe whose positives a fitted generator writes in the run's own process."""

import json
import os
import signal
from pathlib import Path

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
COUNT = "SELECT count(*), count(DISTINCT request_digest), min(endpoint) FROM responses"


@pytest.fixture(scope="module")
def recipe(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose generator paraphrases 120 anchors twice."""
    folder = tmp_path_factory.mktemp("generators")
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = sorted({word for row in texts for word in " ".join(row.values()).split()})
    content = yaml.safe_load(tiny.recipe.read_text()) | {
        "name": "writes",
        "sample": {"rows": 120},
        "generators": {"small": {"model": str(tiny_causal(folder / "writer", words))}},
        "synthesise": {"paraphrase": {"generator": "small", "per_unit": 2}, "entity_swap": None},
        "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
    }
    path = folder / "writes.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def run(recipe: Path, store: Path, *options: str) -> list[str]:
    words = ["--no-server", "--store", str(store), "--until", "triplets"]
    return ["run", str(recipe), *words, *options]


@pytest.fixture(scope="module")
def undisturbed(recipe: Path) -> Path:
    """The store of a run in which a few rows were tried before."""
    store = recipe.parent / "store"
    place = (str(recipe), "--store", str(store))
    ended_well(tercet("try", *place, "--method", "paraphrase", "-n", "3"))
    assert "asks 237 rows (3 " in ended_well(tercet("plan", *place)).stdout
    ended_well(tercet(*run(recipe, store)))
    return store


def test_a_generators_texts_go_the_way_of_a_language_models(
    recipe: Path, undisturbed: Path
) -> None:
    # The prompt is the bare sentence, and two generations of one differ by their seeds.
    assert query(
        undisturbed,
        "SELECT count(*), count(DISTINCT prompt), bool_and(g.prompt = s.text), "
        "bool_and(starts_with(model, 'small@')), count(DISTINCT (sentence_id, raw)) > 180 "
        "FROM generations g JOIN sentences s USING (sentence_id) WHERE method = 'paraphrase'",
    ) == [(240, 120, True, True, True)]
    assert query(undisturbed, COUNT) == [(240, 240, "local")]
    lost = """SELECT count(*) FROM generations WHERE generation_id NOT IN
        (SELECT generation_id FROM candidates WHERE generation_id IS NOT NULL UNION ALL
         SELECT row_id FROM rejects WHERE stage = 'parse')"""
    assert query(undisturbed, lost) == [(0,)]
    # More generations of a sentence leave those that it has.
    more = ("--set", "synthesise.paraphrase.per_unit=3")
    ended_well(tercet(*run(recipe, undisturbed, *more)))
    assert query(undisturbed, COUNT) == [(360, 360, "local")]
    ended_well(tercet(*run(recipe, undisturbed)))


def test_killed_while_it_writes_it_asks_for_no_row_twice(
    recipe: Path, undisturbed: Path, tmp_path: Path
) -> None:
    def journals() -> set[str]:
        """Answers by their digests; a run seals those of earlier ones."""
        files = (tmp_path / "store" / "responses").rglob("*.jsonl")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return {json.loads(line)["request_digest"] for line in lines}

    words = run(recipe, tmp_path / "store")
    known: set[str] = set()
    for kills in (1, 2, 3):
        child = start(*words, script=HELD)
        assert until(lambda: len(journals() - known) == 70 or child.poll() is not None, 600)  # noqa: B023
        assert child.poll() is None, child.communicate()
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        digests = query(tmp_path / "store", "SELECT request_digest FROM responses")
        known = {digest for (digest,) in digests}
        assert len(known) == 70 * kills
    ended_well(tercet(*words))
    assert query(tmp_path / "store", COUNT) == [(240, 240, "local")]
    rows = "SELECT sentence_id, request_digest, raw FROM generations ORDER BY ALL"
    assert query(tmp_path / "store", rows) == query(undisturbed, rows)


def test_a_vaegpt_made_in_the_recipe_writes_with_noise(recipe: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(recipe.read_text())
    fit = {"form": "vaegpt", "init": content["generators"]["small"]["model"], "max_length": 96}
    fit |= {"max_steps": 2, "batch_size": 4, "pairs": {"corpora": ["prose"]}}
    # Without draws, noise alone tells the generations of a sentence apart: W of 5 is much of it.
    fit["vaegpt"] = {"noise_weight": 5.0}
    settings = {"model": "writer", "temperature": 0, "beams": 1, "max_tokens": 12}
    content |= {"models": {"writer": {"fit_generator": fit}}, "generators": {"small": settings}}
    path = tmp_path / "vaegpt.yaml"
    path.write_text(yaml.safe_dump({**content, "sample": {"rows": 20}}, sort_keys=False))
    store = tmp_path / "store"
    ended_well(tercet(*run(path, store, "--until", "parse")))
    ((count, different),) = query(
        store,
        "SELECT count(*), count(DISTINCT (sentence_id, raw)) FROM generations "
        "WHERE method = 'paraphrase'",
    )
    assert count == 40
    assert different > 25
