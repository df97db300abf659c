"""Trainings in three phases, each killed on its way, and with three seeds over the same rows."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import until
from stopped_training import STOPPING, TELLING
from tiny_run import LIMIT, Finished, copy_of, ended_well, query, start, states, tercet

from tercet.flows.pipeline import fingerprints
from tercet.flows.results.queries import find_artifact
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage import locks
from tercet.storage.store import open_store

STEPS = {"batch_size": 8, "max_steps": 8, "learning_rate": 1e-3}
PHASES: list[dict[str, Any]] = [
    {"name": "warm", "rows": "anchors", "loss": {"name": "info_nce", "head": True}, **STEPS},
    {
        "name": "mixed",
        "parts": [
            {"name": "topical", "rows": "pairs", "loss": {"name": "info_nce", "tau": 0.1}},
            {"name": "strict", "rows": {"one_per": "sentence"}, "weight": 0.5},
        ],
        **STEPS,
    },
    {
        "name": "main",
        "loss": {"name": "gaussian_decay", "sigma_cosine": 0.1},
        "mini_batch": 3,
        # So that the evaluator reads each batch's texts as the teacher.
        "word_repetition": True,
        **STEPS,
    },
]
NAMES = [phase["name"] for phase in PHASES]
TRAINED = [f"train.{name}" for name in NAMES]


@pytest.fixture(scope="module")
def recipe(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    content = yaml.safe_load(finished.tiny.recipe.read_text())
    content["train"] = {"max_length": 32, "log_steps": 2, "phases": PHASES}
    path = tmp_path_factory.mktemp("phases") / "phases.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


@pytest.fixture(scope="module")
def undisturbed(finished: Finished, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the three phases ran through."""
    store = copy_of(finished.store, tmp_path_factory.mktemp("undisturbed") / "store")
    ended_well(tercet(*words(recipe, store)))
    return store


def weights(store: Path, name: str) -> bytes:
    artifact = find_artifact(open_store(str(store), create=False), name, None)
    return (artifact.model_dir() / "model.safetensors").read_bytes()


def test_killed_in_each_phase_a_run_goes_on_there(
    finished: Finished, recipe: Path, undisturbed: Path, tmp_path: Path
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    for name in NAMES:
        marker = tmp_path / name
        child = start(name, str(marker), *words(recipe, store), script=STOPPING)
        assert until(lambda: marker.exists() or child.poll() is not None, 600)  # noqa: B023
        assert child.poll() is None
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        before = TRAINED[: NAMES.index(name)]
        done = ended_well(tercet(*words(recipe, store, "--until", f"train.{name}"), script=TELLING))
        # The last checkpoint was written after step 4 or 6.
        (told,) = [line for line in done.stderr.splitlines() if line.startswith("FIRST")]
        assert told.split()[:2] == ["FIRST", name]
        assert int(told.split()[2]) > 4
        found = states(store)
        assert {step: found[step] for step in before} == dict.fromkeys(before, "reused")
        assert found[f"train.{name}"] != "reused"
    for step in TRAINED:
        assert weights(store, step) == weights(undisturbed, step)


def test_the_last_phase_is_what_a_name_means(undisturbed: Path) -> None:
    assert weights(undisturbed, "train") == weights(undisturbed, "train.main")
    assert weights(undisturbed, "train.warm") != weights(undisturbed, "train.main")


def test_the_log_has_each_loss_s_terms_and_the_draws_join(undisturbed: Path) -> None:
    log = query(
        undisturbed,
        "SELECT phase, list(DISTINCT key ORDER BY key) FROM (SELECT phase, "
        "unnest(map_keys(terms)) AS key FROM training_log) GROUP BY phase ORDER BY phase",
    )
    gate = ["gate_opening", "gradient_share", "student_negative", "teacher_negative"]
    parts = sorted(["topical.loss", *(f"strict.{name}" for name in (*gate, "loss"))])
    assert dict(log) == {"main": gate, "mixed": parts}
    ((rows, found, phases),) = query(
        undisturbed,
        """SELECT count(*), count(c.candidate_id), count(DISTINCT phase)
        FROM draws d LEFT JOIN candidates c USING (candidate_id)""",
    )
    assert rows == found > 0
    assert phases == 1


def test_each_seed_trains_and_is_measured_over_shared_rows(
    finished: Finished, tmp_path: Path
) -> None:
    """The two that are missing in processes of their own: one goes on while the other waits."""
    store = copy_of(finished.store, tmp_path / "store")
    several = ["--set", "seeds=3", "--set", "run.workers=2"]
    plan = prepare(RunArguments(str(finished.tiny.recipe), str(store), ("seeds=3",)))
    place = open_store(str(store))
    version = fingerprints.fingerprints(plan.steps, 7, place)["train.seed8"].version
    with locks.hold(place, f"artifact-train.seed8-{version}", who="a test"):
        child = start(*finished.tiny.words(store, *several))
        last = store / "artifacts" / "evaluate.encoder.seed9"
        assert until(lambda: child.poll() is not None or any(last.glob("*/manifest.json")))
        assert child.poll() is None
    _, stderr = child.communicate(LIMIT)
    assert child.returncode == 0, stderr[-4000:]
    fresh = {step for step, state in states(store).items() if state == "made"}
    assert fresh == {
        *("train.seed8", "evaluate.encoder.seed8"),
        *("train.seed9", "evaluate.encoder.seed9"),
    }
    measured = query(
        store,
        """SELECT seed, count(*), count(DISTINCT model_version), min(data_digest), max(data_digest)
        FROM evaluations WHERE metric = 'mrr' AND phase = 'encoder' GROUP BY seed ORDER BY seed""",
    )
    assert [row[:3] for row in measured] == [(7, 1, 1), (8, 1, 1), (9, 1, 1)]
    # The same pairs are asked, whatever the seed of the training.
    assert len({digest for row in measured for digest in row[3:]}) == 1
    losses = query(store, "SELECT seed, list(loss ORDER BY step) FROM training_log GROUP BY seed")
    assert len({tuple(values) for _, values in losses}) == 3
    # Each training went over the same rows; only their order and the dropout differ.
    assert {len(values) for _, values in losses} == {5}
