"""An order on another machine: what must be the same there, and how a difference is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from toy_steps import toy_order, toy_parts

from tercet.flows.recipe.names import Weights
from tercet.flows.running import other_machines
from tercet.flows.running.other_machines import Sent, arrived, making, sent
from tercet.storage.fingerprint import tree_digest
from tercet.storage.runs import start_run
from tercet.storage.store import open_store


@pytest.fixture
def order(tmp_path: Path) -> Any:
    store = open_store(str(tmp_path / "store"))
    made = toy_order(store, run_id=start_run(store, "toy", {}, {}))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").touch()
    model = Weights(str(tmp_path / "model"))
    digest = tree_digest(tmp_path / "model")
    return replace(made, step=replace(made.step, models={"m": model}), model_digests={"m": digest})


def test_it_is_followed_with_its_models_on_the_device_that_it_names(
    order: Any, tmp_path: Path
) -> None:
    there = arrived(sent(order, "cuda"))
    assert there.models == {"m": tmp_path / "model"}
    assert there.resources.device == "cuda"
    assert there.store == order.store


def test_a_part_says_that_it_lives_and_leaves_nothing_behind(order: Any) -> None:
    fetched: list[str] = []

    def fetch(key: str) -> Sent:
        fetched.append(key)
        return sent(order, "cpu")

    for part in toy_parts(order, 2):
        *beats, ended = making("key", fetch, part, 0.001)
        assert set(beats) == {None}
        assert ended == (None,)
    assert fetched == ["key"]
    assert len(order.artifact().records()) == 2
    assert list(order.artifact().scratch().iterdir()) == []


def test_the_build_of_a_library_is_no_difference(
    order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = sent(order, "cpu")
    version = other_machines.metadata.version
    monkeypatch.setattr(other_machines.metadata, "version", lambda name: version(name) + "+cu999")
    assert arrived(here).step == order.step


@pytest.mark.parametrize(("library", "name"), [("duckdb", "duckdb"), ("", "code")])
def test_other_software_is_told(library: str, name: str, order: Any) -> None:
    here = sent(order, "cpu")
    with fails("conflict", name):
        arrived(replace(here, software={**here.software, library: "0.1"}))


def test_another_store_under_the_same_path_is_told(order: Any, tmp_path: Path) -> None:
    one = sent(order, "cpu")
    (tmp_path / "store").rename(tmp_path / "away")
    for _ in range(2):
        with fails("unreachable", "store"):
            arrived(one)
        # One in which another run has begun.
        start_run(open_store(str(tmp_path / "store")), "toy", {}, {})


def test_other_weights_and_files_are_told(order: Any, tmp_path: Path) -> None:
    one = sent(order, "cpu")
    (tmp_path / "model" / "config.json").write_text('{"other": 1}')
    with fails("conflict", "model"):
        arrived(one)
    step = replace(order.step, stage=replace(order.step.stage, externals=lambda c: {"f": "new"}))
    asked = replace(order, step=step, components={**order.components, "externals": {"f": "old"}})
    with fails("conflict"):
        arrived(sent(asked, "cpu"))
