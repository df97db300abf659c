"""A training whose machine is gone goes on, on another one, from its checkpoint in the bucket."""

import os
import signal
from pathlib import Path

import pytest
import s3_server
import tiny_run
import warm
from faulty_server import until
from language_model_run import train
from training_run import same_weights, without_rate

from tercet.flows.running.bucket_checkpoints import kept_in_bucket
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import open_store

SUPPORT = str(Path(__file__).parents[2] / "support")
PLACE = "s3://bucket/checkpoints"

CHILD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from language_model_run import train
from tercet.flows.running import bucket_checkpoints
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import open_store
bucket_checkpoints.SECONDS = 0.2
artifact = open_artifact(open_store(sys.argv[2]), "train", "aaaa")
def waits(done, total, unit):
    # Until it is killed: it gets no further, however late that is.
    if done >= 12:
        time.sleep(3600)
with bucket_checkpoints.kept_in_bucket(artifact, print):
    train("causal", artifact.scratch() / "part-00000" / "checkpoints", checkpoint_steps=2,
          progress=waits)
"""


def test_a_training_killed_on_a_machine_that_is_gone_goes_on(
    bucket: s3_server.Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(PLACE)
    artifact = open_artifact(store, "train", "aaaa")
    newest = f"{artifact.path}/files/checkpoint/newest.json"
    environment = {**tiny_run.environment(), "TERCET_WORK": str(tmp_path / "gone")}
    child = warm.Child(CHILD, [SUPPORT, PLACE], environment)

    def is_there() -> bool:
        """The newest checkpoint alone: older ones go."""
        names = store.get_json(newest) or {}
        there = set(store.stats(f"{artifact.path}/files"))
        return {newest, *names.values()} == there and any("checkpoint-10" in n for n in names)

    assert until(is_there)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    lines: list[str] = []
    seen: list[int] = []
    checkpoints = artifact.scratch() / "part-00000" / "checkpoints"
    with kept_in_bucket(artifact, lines.append):
        weights, log = train("causal", checkpoints, progress=lambda done, *_: seen.append(done))
    assert "s3://bucket" in lines[0]
    assert seen[0] == 11
    whole, undisturbed = train("causal", tmp_path / "whole")
    assert same_weights(weights, whole)
    assert without_rate(log) == without_rate(undisturbed)
    assert store.stats(f"{artifact.path}/files") == {}
