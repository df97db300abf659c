"""A plan where weights are not here yet, so that the versions of what they make are unknown."""

from pathlib import Path

import pytest
from tiny_run import Tiny

from tercet.flows.commands.plan import show_plan
from tercet.flows.planning.plan import plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage.store import open_store


def test_what_was_never_made_is_to_run_whatever_its_weights_are(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    store = tmp_path / "store"
    arguments = RunArguments(str(tiny.recipe), str(store), ("backbone=nobody/weights",))
    planned = plan(prepare(arguments))
    assert {step.state for step in planned} == {"run"}
    assert {step.step for step in planned if step.version is None} >= {"train", "evaluate.base"}
    show_plan(arguments)
    said = capsys.readouterr().out
    assert f"{len(planned)} steps: {len(planned)} to run; time unknown." in said
    # Something of another version lies here: it may be what these weights made, or not.
    open_store(str(store)).create("artifacts/train/0123456789abcdef/plan.json", b"[]")
    states = {step.step: (step.state, step.why) for step in plan(prepare(arguments))}
    assert states["train"] == ("unknown", ("weights not fetched yet",))
    assert states["evaluate.encoder"] == ("run", ("never run here",))
    show_plan(arguments)
    assert "1 unknown until their weights are fetched" in capsys.readouterr().out
