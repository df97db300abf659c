"""Recipes whose T5 writes what follows and what contradicts, and judges what was written."""

import csv
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import until
from fitted_gense import TEMPLATES
from tiny_run import Tiny, ended_well, query, start, states, tercet
from tiny_t5 import tiny_t5

# After so many answers of its own, a run waits to be killed.
HELD = """
import time
from tercet.flows.cli import main
from tercet.storage.answers.pool import Pool
real, added = Pool.add, []
def add(self, values):
    if len(added) == 30:
        time.sleep(3600)
    added.append(values)
    return real(self, values)
Pool.add = add
main()
"""


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory, tiny: Tiny) -> Path:
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = sorted({w for row in texts for text in row.values() for w in text[:-1].split()})
    own = [word for word in words if word.isalnum()]
    known = [*own, *TEMPLATES, "True", "or", "true", "false", "not", ".", "?"]
    return tiny_t5(tmp_path_factory.mktemp("t5") / "init", list(dict.fromkeys(known)))


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nli") / "nli.csv"
    people, things = ["actor", "baker", "farmer", "doctor"], ["apple", "bottle", "clock", "castle"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["anchor", "positive", "negative"])
        for person in people:
            for thing in things:
                for adjective in ("old", "new", "small"):
                    anchor = f"The {person} painted the {adjective} {thing} in Berlin ."
                    positive = f"The {thing} is {adjective} ."
                    writer.writerow([anchor, positive, f"No {person} painted the {thing} ."])
    return path


@pytest.fixture
def recipe(tiny: Tiny, t5: Path, nli: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe in which the T5 writes twice about each of 40 anchors."""

    def write(name: str = "gense", **changes: Any) -> Path:
        content = yaml.safe_load(tiny.recipe.read_text())
        pairs = {"validation": 0.25, "test": 0.25}
        fit = {"form": "gense", "init": str(t5), "pairs": pairs, "max_length": 48}
        fit |= {"max_steps": 4, "batch_size": 8, "choose_every": 2, "learning_rate": 1e-3}
        asked = {"generator": "t5", "per_unit": 2}
        content["corpora"].append(
            {"name": "nli", "source": str(nli), "role": "labelled", "kind": "triplets"}
        )
        content |= {
            "name": name,
            "sample": {"rows": 40},
            "models": {"writer": {"fit_generator": fit}},
            "generators": {"t5": {"model": "writer", "top_p": 0.9, "beams": 1, "max_tokens": 12}},
            "synthesise": {
                "entailment": asked,
                "contradiction": asked,
                "telegram": None,
                "negation": None,
            },
            "score": {"gense": {"model": "writer"}},
            "parse": {"min_words": 1},
            "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0, "p_min": 0.1},
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
        return path

    return write


def words(recipe: Path, store: Path, last: str = "triplets", *options: str) -> list[str]:
    return [*["run", "--no-server", "--store"], str(store), "--until", last, str(recipe), *options]


def last_line(done: Any) -> str:
    assert done.returncode == 2, done.stderr
    return str(done.stderr.splitlines()[-1])


@pytest.mark.slow
def test_one_model_writes_and_judges(recipe: Callable[..., Path], tmp_path: Path) -> None:
    path, store = recipe(), tmp_path / "store"
    ended_well(tercet(*words(path, store)))
    rows = query(
        store,
        "SELECT g.method, any_value(relation), count(*), count(DISTINCT prompt), "
        "bool_and(g.prompt = if(g.method = 'entailment', 'Say what follows from: ', "
        "'Say what contradicts: ') || s.text) FROM generations g JOIN sentences s "
        "USING (sentence_id) WHERE model IS NOT NULL GROUP BY 1 ORDER BY 1",
    )
    assert rows == [
        ("contradiction", "alters", 80, 40, True),
        ("entailment", "keeps", 80, 40, True),
    ]
    # What keeps or alters is judged, whoever wrote it; a random sentence is not.
    judged = query(
        store,
        "SELECT c.relation, count(*) = count(s.candidate_id), count(s.candidate_id) > 0, "
        "min(s.value) >= 0 AND max(s.value) <= 1 FROM candidates c LEFT JOIN scores s "
        "ON s.candidate_id = c.candidate_id AND s.scorer = 'gense' GROUP BY 1 ORDER BY 1",
    )
    assert judged == [
        ("alters", True, True, True),
        ("keeps", True, True, True),
        ("other", False, False, None),
    ]
    arms = query(store, "SELECT DISTINCT arm FROM discriminator_metrics ORDER BY 1")
    assert ("discriminator",) in arms
    # Fewer anchors ask nothing new, and the model is not fitted again.
    ended_well(tercet(*words(recipe(sample={"rows": 30}), store, "generations")))
    assert states(store)["fit_generator.writer"] == "reused"
    assert query(store, "SELECT count(*) FROM generations WHERE model IS NOT NULL") == [(120,)]
    assert query(store, "SELECT count(*) FROM responses") == [(160,)]


@pytest.mark.slow
def test_killed_while_it_writes_it_asks_for_no_row_twice(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    path, store = recipe(), tmp_path / "store"
    ended_well(tercet(*words(path, store, "fit_generator")))

    def answered() -> int:
        files = (store / "responses").rglob("*.jsonl")
        return sum(len(file.read_text().splitlines()) for file in files)

    child = start(*words(path, store), script=HELD)
    reached = until(lambda: answered() >= 30 or child.poll() is not None, 600)
    assert child.poll() is None, child.communicate()
    assert reached
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    ended_well(tercet(*words(path, store)))
    assert states(store)["fit_generator.writer"] == "reused"
    assert query(store, "SELECT count(*), count(DISTINCT request_digest) FROM responses") == [
        (160, 160)
    ]


@pytest.mark.slow
def test_a_model_made_earlier_is_taken_by_its_tag(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ended_well(tercet(*words(recipe(), store, "fit_generator")))
    ((version,),) = query(store, "SELECT version FROM artifacts WHERE step LIKE 'fit_generator.%'")
    tag = ["tag", f"fit_generator.writer@{version}", "judge", "--store", str(store)]
    ended_well(tercet(*tag))
    tagged = {"t5": {"model": "tag:judge", "beams": 1, "max_tokens": 12}}
    path = recipe("later", models={}, generators=tagged, score={"gense": {"model": "tag:judge"}})
    ended_well(tercet(*words(path, store, "scores")))
    ((count,),) = query(store, "SELECT count(*) FROM scores WHERE scorer = 'gense'")
    assert count > 40
    # What it was not fitted to do is refused before anything runs.
    asked = {"paraphrase": {"generator": "t5"}}
    other = recipe("other", models={}, generators=tagged, score={}, synthesise=asked, select={})
    told = last_line(tercet(*words(other, store)))
    assert "it was fitted to entailment and contradiction alone" in told


def test_what_a_model_cannot_do_is_said_before_anything_runs(
    recipe: Callable[..., Path], t5: Path, tiny_backbone: Path
) -> None:
    def said(**changes: Any) -> str:
        return last_line(tercet("plan", str(recipe(**changes))))

    fit = {"form": "gense", "init": str(tiny_backbone)}
    told = said(models={"writer": {"fit_generator": fit}})
    assert "cannot be its init: it is an encoder like BERT, but form: gense needs a T5" in told
    told = said(score={"gense": {"model": str(t5)}})
    assert "score.gense: the model in" in told
    assert "judges nothing, since it has no judge.json" in told
