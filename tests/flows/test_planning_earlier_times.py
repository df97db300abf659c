"""Times of steps that are still to be made, by artifacts that the store has."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tercet.flows.pipeline.step import Step
from tercet.flows.planning import earlier_seconds
from tercet.storage.artifacts import open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import Config, Stage, Work

ROWS = pa.schema([("n", pa.int64())])


def nothing(work: Work) -> None:
    """No stage of this test runs."""


SOURCE = Step("source", Stage("source", Config, {"rows": ROWS}, nothing), Config())
MAPPED = Step(
    "mapped",
    Stage("mapped", Config, {"out": ROWS}, nothing, each="rows"),
    Config(),
    {"rows": ("source",)},
)
FITTED = Step("fitted", Stage("fitted", Config, {}, nothing, model=True), Config(), MAPPED.inputs)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def make(
    store: Store, step: Step, version: str, rows: int, seconds: float, **components: Any
) -> None:
    artifact = open_artifact(store, step.name, version)
    artifact.adopt_plan([{"spec": {}}])
    with PartWriter(artifact.scratch() / "staging", {"rows": ROWS}, 1000) as writer:
        writer.emit("rows", pa.table({"n": range(rows)}, schema=ROWS))
        artifact.commit(0, writer.close(), f"{step.name}-{version}", {})
    artifact.finish({"components": components, "seconds": seconds})


def took(store: Store, step: Step, rows: int | None, **components: Any) -> float | None:
    return earlier_seconds(store, step, components, rows)


def test_the_largest_earlier_artifact_gives_the_time_a_row(store: Store) -> None:
    assert took(store, MAPPED, 100) is None
    for version, rows, seconds in (("a", 10, 50.0), ("b", 200, 20.0)):
        make(store, SOURCE, version, rows, 1.0)
        make(store, MAPPED, version, rows, seconds, inputs={"rows": [version]})
    assert took(store, MAPPED, 100) == pytest.approx(10.0)


def test_rows_that_are_not_known_yet_are_taken_to_be_those_of_the_last_artifact(
    store: Store,
) -> None:
    for version, rows, seconds in (("a", 200, 20.0), ("b", 50, 5.0)):
        make(store, SOURCE, version, rows, 1.0)
        make(store, MAPPED, version, rows, seconds, inputs={"rows": [version]})
    assert took(store, MAPPED, None) == pytest.approx(5.0)
    assert took(store, MAPPED, 5000) == pytest.approx(500.0)


def test_a_source_takes_as_long_as_the_same_source_did(store: Store) -> None:
    make(store, SOURCE, "a", 10, 7.0, externals={"corpus": "x"}, inputs={})
    assert took(store, SOURCE, None, externals={"corpus": "x"}) == 7.0
    assert took(store, SOURCE, None, externals={"corpus": "y"}) is None


def test_a_training_counts_only_for_the_same_configuration(store: Store) -> None:
    make(store, SOURCE, "a", 10, 1.0)
    make(store, FITTED, "a", 0, 30.0, config={"epochs": 1}, inputs={"rows": ["a"]})
    assert took(store, FITTED, 20, config={"epochs": 1, "model_seed": 8}) == pytest.approx(60.0)
    assert took(store, FITTED, 20, config={"epochs": 2}) is None


def test_what_was_taken_over_or_resumed_counts_for_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(store, SOURCE, "a", 10, 1.0)
    make(store, MAPPED, "a", 10, 5.0, inputs={"rows": ["a"]})
    record = open_artifact(store, "mapped", "a").record(0)
    assert record is not None
    make(store, SOURCE, "b", 1000, 1.0)
    reused = open_artifact(store, "mapped", "b")
    reused.adopt_plan([{"spec": {}}])
    reused.reference(0, record, {})
    reused.finish({"components": {"inputs": {"rows": ["b"]}}, "seconds": 0.1})
    assert took(store, MAPPED, 10) == pytest.approx(5.0)
    # A part that is an hour older than the five seconds that its artifact took in the end.
    make(store, SOURCE, "c", 5000, 1.0)
    old = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="milliseconds")
    with monkeypatch.context() as patch:
        patch.setattr("tercet.storage.records.now", lambda: old)
        resumed = open_artifact(store, "mapped", "c")
        resumed.adopt_plan([{"spec": {}}])
        with PartWriter(resumed.scratch() / "staging", {"rows": ROWS}, 1000) as writer:
            writer.emit("rows", pa.table({"n": range(5)}, schema=ROWS))
            resumed.commit(0, writer.close(), "mapped-c", {})
    resumed.finish({"components": {"inputs": {"rows": ["c"]}}, "seconds": 5.0})
    assert took(store, MAPPED, 10) == pytest.approx(5.0)
