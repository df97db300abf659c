"""Parts made by several processes, one pool a run."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from failures import fails
from faulty_server import until
from toy_steps import toy_order, toy_parts

from tercet.flows.pipeline.step import Step
from tercet.flows.running import gpus
from tercet.flows.running.executors import Processes
from tercet.flows.running.one_part import PartOrder, commit_part
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import Config, Resources, Stage, Work, silent

COUNT = 12


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def two() -> Iterator[Processes]:
    pool = Processes(2)
    yield pool
    pool.close()
    assert children(os.getpid()) == set()


def children(process: int) -> set[int]:
    """The worker processes of this one that are alive."""
    found = psutil.Process(process).children(recursive=True)
    return {
        one.pid
        for one in found
        if one.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(one.cmdline())
    }


def made(order: PartOrder, column: str) -> list[object]:
    return order.artifact().rows().table("rows")[column].to_pylist()


def test_two_steps_share_their_processes_and_nothing_loaded(store: Store, two: Processes) -> None:
    orders = [toy_order(store, version) for version in ("aaaa", "bbbb")]
    seen: list[tuple[int, int | None, str]] = []
    for order in orders:
        two.map(order, toy_parts(order, COUNT), lambda *progress: seen.append(progress))
        assert made(order, "x") == list(range(COUNT))
    assert seen == [(1, 1, "parts")] * 2 * COUNT
    first, second = (set(made(order, "pid")) for order in orders)
    assert first == second == children(os.getpid())
    assert len(first) == 2
    loads = [set(made(order, "loaded")) for order in orders]
    assert [len(found) for found in loads] == [2, 2]
    assert loads[0].isdisjoint(loads[1])


def test_closed_it_holds_no_process_and_starts_again(store: Store, two: Processes) -> None:
    order = toy_order(store)
    parts = toy_parts(order, COUNT)
    two.map(order, parts[:4], silent)
    before = children(os.getpid())
    two.close()
    assert children(os.getpid()) == set()
    two.map(order, parts[4:], silent)
    assert made(order, "x") == list(range(COUNT))
    assert before.isdisjoint(children(os.getpid()))


def test_a_single_part_needs_no_process(store: Store, two: Processes) -> None:
    order = toy_order(store)
    two.map(order, toy_parts(order, 1), silent)
    assert made(order, "pid") == [os.getpid()]
    assert children(os.getpid()) == set()


def test_what_a_part_raises_is_raised_and_the_others_are_kept(store: Store, two: Processes) -> None:
    order = toy_order(store)
    with fails("bad_value") as caught:
        two.map(order, toy_parts(order, COUNT, x5="fail"), silent)
    assert "toy_steps.py" in "".join(caught.value.__notes__)
    kept = order.artifact().records()
    assert set(range(5)) <= set(kept)
    assert 5 not in kept


def test_after_a_killed_worker_the_next_step_goes_on(store: Store, two: Processes) -> None:
    order = toy_order(store)
    with pytest.raises(RuntimeError, match=r"run\.workers"):
        two.map(order, toy_parts(order, COUNT, x3="die"), silent)
    other = toy_order(store, "bbbb")
    two.map(other, toy_parts(other, COUNT), silent)
    assert made(other, "x") == list(range(COUNT))


def test_an_interrupt_does_not_wait_for_parts(store: Store, two: Processes) -> None:
    order = toy_order(store)

    def interrupted(*progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        two.map(order, toy_parts(order, 2, x1="wait"), interrupted)
    assert children(os.getpid()) == set()


KILLED = """
import sys
from toy_steps import toy_order, toy_parts
from tercet.flows.running import executors
from tercet.flows.running.executors import Processes
from tercet.storage.store import open_store
from tercet.tasks.stage import silent
if __name__ == "__main__":
    order = toy_order(open_store(sys.argv[1]))
    Processes(2).map(order, toy_parts(order, 2, x0="wait", x1="wait"), silent)
"""


def program(tmp_path: Path, store: Store, text: str) -> subprocess.Popen[bytes]:
    """A script of this text that is running."""
    path = tmp_path / "script.py"
    path.write_text(text)
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    return subprocess.Popen([sys.executable, str(path), store.location], env=surroundings)


def test_workers_of_a_killed_run_end_by_themselves(store: Store, tmp_path: Path) -> None:
    run = program(tmp_path, store, KILLED)
    scratch = toy_order(store).artifact().scratch()
    assert until(lambda: len(list(scratch.glob("*/waits"))) == 2)
    workers = children(run.pid)
    assert len(workers) == 2
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert until(lambda: not any(psutil.pid_exists(pid) for pid in workers))


def test_a_script_needs_no_guard(store: Store, tmp_path: Path) -> None:
    unguarded = KILLED.replace('if __name__ == "__main__":', "if True:")
    text = unguarded.replace('2, x0="wait", x1="wait"', "4")
    assert program(tmp_path, store, text).wait(240) == 0
    assert made(toy_order(store), "x") == list(range(4))


def test_an_error_of_a_part_is_told_as_it_is(
    store: Store, two: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also one of a pipe; and the other workers end without a word."""
    order = toy_order(store)
    with pytest.raises(ConnectionRefusedError, match="the scorer refuses"):
        two.map(order, toy_parts(order, COUNT, x5="refuse"), lambda *progress: time.sleep(0.1))
    assert "Traceback" not in capfd.readouterr().err


def test_a_stand_in_for_two_gpus_gives_each_worker_one_of_them(
    store: Store, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers say what they see; nothing is computed on a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    model = {"encoder": Path("nowhere")}
    pool = Processes(3)
    plain = toy_order(store, "aaaa", "cuda")
    pool.map(plain, toy_parts(plain, COUNT), silent)
    # Of a step that reads no model, all three make parts.
    assert len(set(made(plain, "pid"))) == 3
    encoding = toy_order(store, "bbbb", "cuda", model)
    pool.map(encoding, toy_parts(encoding, COUNT), silent)
    seen = set(zip(made(encoding, "pid"), made(encoding, "gpus"), strict=True))
    assert sorted(str(gpu) for _, gpu in seen) == ["0", "1"]
    pool.close()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    single = toy_order(store, "cccc", "cuda", model)
    pool.map(single, toy_parts(single, 2), silent)
    assert made(single, "pid") == [os.getpid()] * 2


def test_a_stand_in_for_a_gpu_serves_one_process_at_a_time(
    store: Store, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    lines: list[str] = []
    order = toy_order(store, "aaaa", "cuda", {"encoder": Path("nowhere")})
    parts = toy_parts(order, 1)
    with gpus.turn(gpus.cards(), print):
        pool = Processes(2, lines.append)
        mapping = threading.Thread(target=pool.map, args=(order, parts, silent))
        mapping.start()
        assert until(lambda: bool(lines))
        assert not order.artifact().records()
    mapping.join()
    assert "GPU 1" in lines[0]
    assert made(order, "x") == [0]


def test_two_attempts_at_one_part_do_not_disturb_each_other(store: Store) -> None:
    both = threading.Barrier(2, timeout=60)

    def run(work: Work) -> None:
        for start in range(0, 30, 10):
            work.emit("numbers", pa.table({"x": range(start, start + 10)}))
            both.wait()

    stage = Stage("count", Config, {"numbers": pa.schema([("x", pa.int64())])}, run)
    components = {"stage": "count", "config": {}, "code": "", "libraries": {}, "externals": {}}
    order = PartOrder(
        store=store,
        step=Step(stage.name, stage, Config()),
        version="aaaa",
        seed=1,
        components={**components, "inputs": {}, "models": {}},
        inputs={},
        schemas={},
        models={},
        model_digests={},
        resources=Resources(part_rows=10),
    )
    artifact = order.artifact()
    (entry,) = artifact.adopt_plan([{"spec": {}}])
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(commit_part, order, order.part(0, entry), silent) for _ in range(2)]
        for attempt in attempts:
            attempt.result()
    assert artifact.rows().table("numbers")["x"].to_pylist() == list(range(30))
    there = {path for path in store.sizes(artifact.path) if "/data/" in path}
    assert there == {file["path"] for file in artifact.records()[0]["tables"]["numbers"]}
    assert [path.name for path in artifact.scratch().iterdir()] == ["part-00000"]
