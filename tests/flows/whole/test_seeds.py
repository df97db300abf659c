"""`seeds: N`: several trainings over the same rows, in one run."""

import re

import pytest
from faulty_server import until
from tiny_run import LIMIT, Finished, copy_of, query, start, states

from tercet.flows.pipeline import compile as steps
from tercet.flows.pipeline import fingerprints
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage import locks
from tercet.storage.store import open_store
from tercet.tasks.stage import BadInput


def test_each_seed_trains_and_is_measured_over_shared_rows(finished: Finished, tmp_path):
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
    stdout, stderr = child.communicate(LIMIT)
    assert child.returncode == 0, stderr[-4000:]
    fresh = {step for step, state in states(store).items() if state == "made"}
    assert fresh == {
        *("train.seed8", "evaluate.encoder.seed8"),
        *("train.seed9", "evaluate.encoder.seed9"),
    }
    assert re.search("train.seed8 +waits for process [0-9]+, a test", stderr)
    assert "Over 3 seeds" in stdout
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


def test_one_seed_finds_the_first_of_several(finished: Finished, tmp_path):
    alone = {step.name: step.config for step in _compiled(finished, "seeds=1")}
    several = {step.name: step.config for step in _compiled(finished, "seeds=4")}
    assert {name: several[name] for name in alone} == alone
    assert set(several) - set(alone) == {
        f"{step}.seed{seed}" for step in ("train", "evaluate.encoder") for seed in (8, 9, 10)
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("seeds=0",), "seeds is 0"),
        (("seeds=2.5",), "seeds is 2.5"),
        (("seeds=2", f"seed={2**32 - 1}"), "seed + seeds must be at most 2"),
    ],
)
def test_a_count_of_seeds_that_cannot_be(finished: Finished, said, expected):
    with pytest.raises(BadInput, match=expected.replace("+", r"\+")):
        _compiled(finished, *said)


def _compiled(finished: Finished, *overrides: str) -> tuple[steps.Step, ...]:
    return steps.compile_steps(resolve(recipe_file.load(str(finished.tiny.recipe), overrides)))
