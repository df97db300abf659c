"""Trainings in three phases, each killed on its way, and with three seeds over the same rows."""

import os
import signal
from pathlib import Path
from typing import Any

import yaml
from faulty_server import until
from tiny_run import LIMIT, Finished, copy_of, ended_well, query, start, states, tercet

from tercet.flows.pipeline import fingerprints
from tercet.flows.results.queries import find_artifact
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage import locks
from tercet.storage.store import open_store

# The command line, with a checkpoint every two steps; it stands still at step 6 of one phase.
STOPPING = """
import dataclasses, functools, sys, time
from pathlib import Path
from tercet.flows.cli import main
from tercet.models.training import loop, train_encoder

phase, marker = sys.argv.pop(1), Path(sys.argv.pop(1))
train = train_encoder.train

def stopping(module, batches, step, numbers, setting, **more):
    def progress(done, total, unit):
        if numbers.name == phase and done == 6:
            marker.touch()
            time.sleep(3600)
    own = dataclasses.replace(setting, checkpoint_steps=2, log_steps=2, progress=progress)
    return train(module, batches, step, numbers, own, **more)

train_encoder.train = stopping
main()
"""
# What such a run resumes from, said at the first step that it takes.
TELLING = """
import dataclasses, sys
from tercet.flows.cli import main
from tercet.models.training import train_encoder

train = train_encoder.train

def telling(module, batches, step, numbers, setting, **more):
    taken = []
    def progress(done, total, unit):
        taken.append(done)
    own = dataclasses.replace(setting, checkpoint_steps=2, log_steps=2, progress=progress)
    log = train(module, batches, step, numbers, own, **more)
    print(f"FIRST {numbers.name} {taken[0]}", file=sys.stderr)
    return log

train_encoder.train = telling
main()
"""

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
        "word_repetition": "many",
        **STEPS,
    },
]
NAMES = [phase["name"] for phase in PHASES]
TRAINED = [f"train.{name}" for name in NAMES]


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


def weights(store: Path, name: str) -> bytes:
    artifact = find_artifact(open_store(str(store), create=False), name, None)
    return (artifact.model_dir() / "model.safetensors").read_bytes()


def test_killed_in_each_phase_a_run_goes_on_there(finished: Finished, tmp_path: Path) -> None:
    recipe = tmp_path / "phases.yaml"
    content = yaml.safe_load(finished.tiny.recipe.read_text())
    content["train"] = {"max_length": 32, "log_steps": 2, "phases": PHASES}
    recipe.write_text(yaml.safe_dump(content, sort_keys=False))
    store, undisturbed = (copy_of(finished.store, tmp_path / name) for name in ("store", "whole"))
    ended_well(tercet(*words(recipe, undisturbed)))
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
        (first,) = [line for line in done.stderr.splitlines() if line.startswith("FIRST")]
        assert first.split()[:2] == ["FIRST", name]
        assert int(first.split()[2]) > 4
        steps = states(store)
        assert {step: steps[step] for step in before} == dict.fromkeys(before, "reused")
        assert steps[f"train.{name}"] != "reused"
    for step in TRAINED:
        assert weights(store, step) == weights(undisturbed, step)


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
