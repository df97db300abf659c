"""Parts made by several processes, one pool a run."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from failures import fails
from faulty_server import until
from toy_steps import toy_order, toy_parts

from tercet.flows.running import gpus
from tercet.flows.running.executors import Processes
from tercet.flows.running.one_part import PartOrder
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import silent

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
    told: list[tuple[int, int | None, str]] = []
    for order in orders:
        two.map(order, toy_parts(order, COUNT), lambda *said: told.append(said))
        assert made(order, "x") == list(range(COUNT))
    assert told == [(1, 1, "parts")] * 2 * COUNT
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


def test_a_killed_worker_is_one_sentence_and_the_next_step_goes_on(
    store: Store, two: Processes
) -> None:
    order = toy_order(store)
    with pytest.raises(RuntimeError, match=r"run\.workers"):
        two.map(order, toy_parts(order, COUNT, x3="die"), silent)
    other = toy_order(store, "bbbb")
    two.map(other, toy_parts(other, COUNT), silent)
    assert made(other, "x") == list(range(COUNT))


def test_an_interrupt_does_not_wait_for_parts(store: Store, two: Processes) -> None:
    order = toy_order(store)

    def interrupted(*said: object) -> None:
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


def test_workers_of_a_killed_run_end_by_themselves(store: Store, tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    support = Path(__file__).parents[2] / "support"
    surroundings = {**os.environ, "PYTHONPATH": str(support)}
    run = subprocess.Popen([sys.executable, str(program), store.location], env=surroundings)
    scratch = toy_order(store).artifact().scratch()
    assert until(lambda: len(list(scratch.glob("*/waits"))) == 2)
    workers = children(run.pid)
    assert len(workers) == 2
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert until(lambda: not any(psutil.pid_exists(pid) for pid in workers))


def test_a_script_needs_no_guard(store: Store, tmp_path: Path) -> None:
    program = tmp_path / "script.py"
    unguarded = KILLED.replace('if __name__ == "__main__":', "if True:")
    program.write_text(unguarded.replace('2, x0="wait", x1="wait"', "4"))
    support = Path(__file__).parents[2] / "support"
    surroundings = {**os.environ, "PYTHONPATH": str(support)}
    words = [sys.executable, str(program), store.location]
    subprocess.run(words, check=True, timeout=240, env=surroundings)
    assert made(toy_order(store), "x") == list(range(4))


def test_an_error_of_a_part_is_told_as_it_is(
    store: Store, two: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also one of a pipe; and the other workers end without a word."""
    order = toy_order(store)
    with pytest.raises(ConnectionRefusedError, match="the scorer refuses"):
        two.map(order, toy_parts(order, COUNT, x5="refuse"), lambda *said: time.sleep(0.1))
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
    said: list[str] = []
    order = toy_order(store, "aaaa", "cuda", {"encoder": Path("nowhere")})
    parts = toy_parts(order, 1)
    with gpus.turn(gpus.cards(), print):
        mapping = threading.Thread(
            target=Processes(2, said.append).map, args=(order, parts, silent)
        )
        mapping.start()
        assert until(lambda: bool(said))
        assert not order.artifact().records()
    mapping.join()
    assert "GPU 1" in said[0]
    assert made(order, "x") == [0]
