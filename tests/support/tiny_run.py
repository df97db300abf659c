"""A whole pipeline in little: a corpus of made-up prose, a recipe, and ways to start `tercet`."""

import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml

from tercet.flows.service import server
from tercet.storage import locks, runs
from tercet.storage.artifacts import all_artifacts
from tercet.storage.catalog import views as catalog
from tercet.storage.records import Record
from tercet.storage.store import Store, open_store

MAIN = "from tercet.flows.cli import main; main()"
ROOT = Path(__file__).parents[2]
DOCUMENTS = 140
# Lines of warnings, before what a command says of its own.
WARNED = re.compile(r"\d+ warnings? |  [a-z]")
# Seconds after which a child hangs, also on a machine that is slow and busy.
LIMIT = 3600

_WORDS = {
    "thing": """
        apple axe bacon basket bean bear beer beetle bird bottle bowl box bread broom brush bucket
        butter butterfly cabbage cake camel camera carrot castle cat cathedral chair cheese cherry
        chicken church clock coat coffee cow cricket cup deer desert dog dolphin duck eagle elephant
        engine factory farm fern fish forest fox frog garden giraffe goat goose grape hammer harbor
        horse hospital array function column list file index row value""",
    "adjective": "old new small large red blue green first last quiet broken heavy empty",
    "verb": "opened closed lifted painted counted wanted followed carried washed repaired",
    "place": "Berlin Brazil Africa America Asia Australia China Egypt France Germany",
    "person": "actor baker builder butcher farmer teacher doctor driver gardener clerk",
    "unit": "kilograms metres litres hours minutes euros percent miles days tons",
}
_SHAPES = (
    "The {person} {verb} the {adjective} {thing} and {number} {unit} of {other} in {place}.",
    "In {place} a {adjective} {thing} was {verb} by one {person} after {number} {unit}.",
    "About {number} {unit} from the {other}, the {person} {verb} a {thing} near {place}.",
    "No {thing} is as {adjective} as the {other} that a {person} {verb} for {number} {unit}.",
)


@dataclass(frozen=True)
class Tiny:
    """A recipe over a corpus, both files in one folder."""

    corpus: Path
    recipe: Path
    backbone: Path

    def words(self, store: Path, *options: str) -> list[str]:
        """What follows `tercet` to run it without a Prefect server."""
        return ["run", str(self.recipe), "--no-server", "--store", str(store), *options]


@dataclass(frozen=True)
class Finished:
    """A run that nobody disturbed: not to be written to; `copy_of` gives a store of one's own."""

    tiny: Tiny
    store: Path
    stdout: str
    stderr: str
    seconds: float


def documents(count: int, seed: int = 1) -> list[dict[str, str]]:
    """Short documents in two columns; now and then one repeats a sentence of another."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        sentences = [_sentence(draw) for _ in range(6)]
        if number % 9 == 8:
            sentences[3] = made[number // 2]["answer"].split(". ")[0].rstrip(".") + "."
        made.append({"query": " ".join(sentences[:2]), "answer": " ".join(sentences[2:])})
    return made


def write_corpus(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_recipe(path: Path, corpus: Path, backbone: Path) -> None:
    """A recipe whose every stage has a few parts and whose training takes ten steps."""
    recipe = {
        "name": "tiny",
        "seed": 7,
        "backbone": str(backbone),
        "corpora": [{"name": "prose", "source": str(corpus), "query": "query", "answer": "answer"}],
        "ingest": {"min_words": 3, "max_words": 60, "test": 0.3, "dev": 0.05},
        "synthesise": {
            "next_sentences": None,
            "word_repetition": None,
            "entity_swap": None,
            "quantity_change": {"weight": 0.5},
        },
        "evaluator": {"model": str(backbone)},
        "select": {
            "pairing": "role",
            "positive_min": 0.0,
            "negative_max": 1.0,
            "fallback_positive": False,
            "methods": {"word_repetition": {"weight": 0.2}},
        },
        "train": {
            "max_length": 32,
            "log_steps": 2,
            "phases": [{"batch_size": 8, "max_steps": 10, "learning_rate": 1e-3}],
        },
        "evaluate": {"bootstrap": 200},
        "run": {"device": "cpu", "part_rows": 150, "batch_size": 32},
    }
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))


def environment(**variables: str) -> dict[str, str]:
    """A child's environment: one thread, no hub, none of the caller's own settings."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("TERCET_", "PREFECT_"))}
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    return {**own, **quiet, **variables}


def start(*words: str, script: str = MAIN) -> warm.Child:
    """`tercet` in a process group of its own, with the libraries imported already."""
    return warm.Child(script, words, environment())


def tercet(
    *words: str, script: str = MAIN, tree: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The same to its end. `tree`: where a copy of our code lies, to be run."""
    surroundings = environment() if tree is None else environment(PYTHONPATH=str(tree))
    return warm.finished(script, words, surroundings, LIMIT)


def started_anew(*words: str, script: str = MAIN) -> subprocess.CompletedProcess[str]:
    """`tercet` to its end, in a process that has imported nothing yet."""
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=LIMIT,
        check=False,
    )


def ended_well(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The process itself, if its exit code is 0."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def copy_of(store: Path, target: Path) -> Path:
    """A store of one's own with the same content."""
    return Path(shutil.copytree(store, target))


def copy_code(target: Path) -> Path:
    """A copy of our packages that may be edited; the folder to put on PYTHONPATH."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tercet", target / "tercet", ignore=ignore)
    for package in ("flows", "tasks", "models", "storage", "recipes"):
        shutil.copytree(ROOT / package, target / "tercet" / package, ignore=ignore)
    return target


def states(store: Path) -> dict[str, str]:
    """Step to reused, resumed or made, of the newest run."""
    run = runs.resolve_run(open_store(str(store), create=False), None)
    return {step["step"]: step["state"] for step in run["steps"]}


def query(store: Path, text: str, run: str | None = None) -> list[tuple[Any, ...]]:
    """Rows of a query over the newest run's tables, asked as the command line does."""
    with catalog.connect(open_store(str(store), create=False), run) as connection:
        return connection.execute(text).fetchall()


def digest_of(store: Path, table: str, order: str) -> str:
    """Digest of a table's rows, all columns, in the order of that one."""
    rows = query(store, f"SELECT * FROM {table} ORDER BY {order}")
    assert rows
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def records(store: Store) -> Iterator[tuple[str, Record]]:
    """Every part record with the path of its artifact."""
    for artifact in all_artifacts(store):
        for record in artifact.records().values():
            yield artifact.path, record


def record_of(store: Path, step: str) -> dict[int, Record]:
    """The part records of a step in the newest run."""
    place = open_store(str(store), create=False)
    run = runs.resolve_run(place, None)
    (version,) = [entry["version"] for entry in run["steps"] if entry["step"] == step]
    (artifact,) = [a for a in all_artifacts(place) if (a.step, a.version) == (step, version)]
    return artifact.records()


@contextmanager
def held_up(finished: Finished, store: Path, step: str) -> Iterator[None]:
    """No run on the store gets beyond this step meanwhile, as if somebody else were making it."""
    run = runs.resolve_run(open_store(str(finished.store), create=False), None)
    (version,) = [entry["version"] for entry in run["steps"] if entry["step"] == step]
    with locks.hold(open_store(str(store)), f"artifact-{step}-{version}", who="a test"):
        yield


@contextmanager
def in_use(store: Path) -> Iterator[None]:
    """The store's Prefect server has a user meanwhile: left alone, it would end by itself."""
    with (server.folder(store) / "users.lock").open("ab") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield


def _sentence(draw: random.Random) -> str:
    said = {kind: draw.sample(words.split(), 2) for kind, words in _WORDS.items()}
    first = {kind: words[0] for kind, words in said.items()}
    return draw.choice(_SHAPES).format(**first, other=said["thing"][1], number=draw.randint(2, 900))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: Path) -> Tiny:
    """The corpus and the recipe."""
    folder = tmp_path_factory.mktemp("tiny")
    made = Tiny(folder / "prose.jsonl", folder / "tiny.yaml", tiny_backbone)
    write_corpus(made.corpus, documents(DOCUMENTS))
    write_recipe(made.recipe, made.corpus, tiny_backbone)
    return made


@pytest.fixture(scope="session")
def finished(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A store with one run that went through undisturbed."""
    store = tmp_path_factory.mktemp("finished") / "store"
    child = start(*tiny.words(store))
    began = time.monotonic()
    stdout, stderr = child.communicate(LIMIT)
    seconds = time.monotonic() - began
    ended_well(subprocess.CompletedProcess(child.args, child.wait(), stdout, stderr))
    return Finished(tiny, store, stdout, stderr, seconds)
