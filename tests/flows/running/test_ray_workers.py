"""Parts made on a real Ray cluster, some of whose nodes die, hang or are unlike the others."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from failures import fails
from faulty_server import until
from ray_cluster import Nodes
from toy_steps import toy_order, toy_parts

from tercet.flows.running.executors import Executor
from tercet.flows.running.one_part import PartOrder
from tercet.storage.runs import start_run
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import silent

pytestmark = pytest.mark.slow
COUNT = 8
# Tasks, and the actors of steps that read a model.
MODELS = {"model": Path("nowhere")}
BOTH = pytest.mark.parametrize("models", [{}, MODELS], ids=["tasks", "actors"])


class Trial:
    """A store, and what the workers say while they make something in it."""

    def __init__(self, store: Store, workers: Executor, lines: list[str]) -> None:
        self.store, self.workers, self.lines = store, workers, lines
        self.run_id = start_run(store, "toy", {}, {})

    def order(self, models: Mapping[str, Path], version: str = "aaaa") -> PartOrder:
        return toy_order(self.store, version, models=models, run_id=self.run_id)

    def made(self, order: PartOrder, **does: str) -> list[object]:
        """What the rows of so many parts say, once they are made."""
        self.workers.map(order, toy_parts(order, COUNT, **does), silent)
        table = order.artifact().rows().table("rows")
        assert table["x"].to_pylist() == list(range(COUNT))
        return table["loaded"].to_pylist()


@pytest.fixture(scope="module")
def workers(ray_nodes: Nodes) -> Iterator[tuple[Executor, list[str]]]:
    """Workers that stay in the cluster from test to test, and what they say."""
    from tercet.flows.running.ray_workers import RayWorkers

    lines: list[str] = []
    with closing(RayWorkers("cpu", lines.append)) as made:
        yield made, lines


@pytest.fixture
def trial(
    workers: tuple[Executor, list[str]],
    ray_nodes: Nodes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Trial:
    from tercet.flows.running import ray_workers

    monkeypatch.setattr(ray_workers, "BEAT", 0.5)
    monkeypatch.setattr(ray_workers, "SILENT", 4.0)
    for begun in ray_nodes.folder.iterdir():
        begun.unlink()
    workers[1].clear()
    return Trial(open_store(str(tmp_path / "store")), *workers)


@BOTH
def test_a_worker_loads_once_for_all_of_its_parts(trial: Trial, models: Mapping[str, Path]) -> None:
    loaded = trial.made(trial.order(models), **{f"x{x}": "share" for x in range(COUNT)})
    assert len(set(loaded)) == 2
    assert trial.lines == []


@BOTH
def test_what_lost_nodes_were_making_is_made_elsewhere(
    trial: Trial, ray_nodes: Nodes, models: Mapping[str, Path]
) -> None:
    dead, hung = (ray_nodes.add(TOY_STUCK=name) for name in ("dead", "hung"))

    def lose() -> None:
        assert until(lambda: len(list(ray_nodes.folder.iterdir())) == 2)
        ray_nodes.stop(hung, signal.SIGSTOP)
        ray_nodes.stop(dead, signal.SIGKILL)

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        trial.made(trial.order(models), **{f"x{x}": "meet" for x in range(COUNT)})
    finally:
        losing.join()
        for node in (dead, hung):
            ray_nodes.remove(node)
    # Of the one that hangs Ray says nothing in time, or nothing at all.
    assert f"its worker died on the node {dead.node_id}" in "\n".join(trial.lines)
    assert f"on the node {hung.node_id}" in "\n".join(trial.lines)


def test_what_a_part_raises_is_raised(trial: Trial) -> None:
    with fails("bad_value") as caught:
        trial.made(trial.order({}), x5="fail")
    assert "toy_steps.py" in "".join(caught.value.__notes__)


def test_a_part_that_kills_its_workers_ends_the_step(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tercet.flows.running import ray_workers

    monkeypatch.setattr(ray_workers, "TRIES", 1)
    with fails("lost", "3", "2"):
        trial.made(trial.order({}), x3="die")


def test_nodes_whose_memory_runs_out_or_that_are_unlike_the_driver_are_told(
    trial: Trial, ray_nodes: Nodes, tmp_path: Path
) -> None:
    narrow = ray_nodes.add(RAY_memory_usage_threshold="0.001", RAY_memory_monitor_refresh_ms="100")
    waiting = {f"x{x}": "wait" for x in range(COUNT)}
    try:
        with fails("limit", "run.mem"):
            trial.made(trial.order({}), **waiting)
    finally:
        ray_nodes.remove(narrow)
    about = tmp_path / "other" / "duckdb-9.9.9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb\nVersion: 9.9.9\n")
    strange = ray_nodes.add(PYTHONPATH=str(tmp_path / "other"))
    try:
        with fails("conflict", "9.9.9"):
            trial.made(trial.order(MODELS, "bbbb"))
    finally:
        ray_nodes.remove(strange)


def test_a_node_that_does_not_see_the_store_is_told(trial: Trial, tmp_path: Path) -> None:
    order = trial.order({})
    Path(trial.store.location, "runs").rename(tmp_path / "elsewhere")
    with fails("unreachable", "store"):
        trial.made(order)
