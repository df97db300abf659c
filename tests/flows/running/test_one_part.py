"""One part, made by more than one at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tercet.flows.pipeline.step import Step
from tercet.flows.running.one_part import PartOrder, commit_part
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import Config, Resources, Stage, Work, silent

ROWS = 30
TABLES = {"numbers": pa.schema([("x", pa.int64())])}
COMPONENTS = {"stage": "count", "config": {}, "code": "", "libraries": {}, "externals": {}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def order_of(store: Store, stage: Stage) -> PartOrder:
    """The order of a step of this stage, which reads nothing."""
    return PartOrder(
        store=store,
        step=Step(stage.name, stage, Config()),
        version="aaaa",
        seed=1,
        components={**COMPONENTS, "inputs": {}, "models": {}},
        inputs={},
        schemas={},
        models={},
        model_digests={},
        resources=Resources(part_rows=10),
    )


def test_two_attempts_at_one_part_do_not_disturb_each_other(store: Store) -> None:
    both = threading.Barrier(2, timeout=60)

    def run(work: Work) -> None:
        for start in range(0, ROWS, 10):
            work.emit("numbers", pa.table({"x": range(start, start + 10)}))
            both.wait()

    order = order_of(store, Stage("count", Config, TABLES, run))
    artifact = order.artifact()
    (entry,) = artifact.adopt_plan([{"spec": {}}])
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(commit_part, order, order.part(0, entry), silent) for _ in range(2)]
        for attempt in attempts:
            attempt.result()
    assert artifact.rows().table("numbers")["x"].to_pylist() == list(range(ROWS))
    there = {path for path in store.sizes(artifact.path) if "/data/" in path}
    assert there == {file["path"] for file in artifact.records()[0]["tables"]["numbers"]}
    assert [path.name for path in artifact.scratch().iterdir()] == ["part-00000"]
