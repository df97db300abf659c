"""Runs killed at random moments go on where they were, and nobody ever reads half of anything.

TERCET_KILLS says how often the long test kills (2), TERCET_KILL_SEED when, and TERCET_KILL_RECIPE
what: `quickstart --until triplets`, say, in place of the tiny recipe.
"""

import contextlib
import json
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from faulty_server import until
from tiny_run import (
    LIMIT,
    ROOT,
    Finished,
    digest_of,
    ended_well,
    held_up,
    in_use,
    records,
    start,
    started_anew,
    states,
    tercet,
)
from warm import Child
from watched import Watched, leftovers

from tercet.flows.service import server
from tercet.storage.store import open_store

KILLS = int(os.environ.get("TERCET_KILLS", "2"))
SEED = int(os.environ.get("TERCET_KILL_SEED", "20260704"))
RECIPE = shlex.split(os.environ.get("TERCET_KILL_RECIPE", ""))
# Seconds that a run lives at most: a longer recipe is killed many times on its way.
LONGEST = 80.0


def _read_until(stop: Path, store: Path, answer: "multiprocessing.queues.Queue[object]") -> None:
    watched = Watched(store)
    answer.put("ready")
    while not stop.exists():
        began = time.monotonic()
        watched.look()
        # A large store leaves the runs most of a core.
        time.sleep(max(0.02, 4 * (time.monotonic() - began)))
    watched.look()
    answer.put((watched.faults, watched.looked, watched.seen()))


@contextmanager
def reader(store: Path, looks: list[int]) -> Iterator[None]:
    """Another process that reads all records all the while, and finds every file whole."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    stop = store.parent / f"{store.name}.stop"
    process = context.Process(target=_read_until, args=(stop, store, answer))
    process.start()
    try:
        assert answer.get(timeout=600) == "ready"
        yield
        stop.touch()
        faults, looked, seen = answer.get(timeout=600)
        assert faults == []
        looks[:] = [looked, seen]
    finally:
        stop.touch()
        process.join(120)
        process.kill()


def kill(child: Child, seconds: float) -> bool:
    """Kills the child's whole process group after so long; False if it had ended by itself."""
    try:
        child.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return True


def n_parts(store: Path) -> int:
    return sum(1 for _ in store.glob("artifacts/*/*/_parts/*.json"))


@pytest.fixture
def undisturbed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], Path, float]:
    """What runs it on a store that is named next; a store where it was not killed; its seconds."""
    if not RECIPE:
        finished = request.getfixturevalue("finished")
        return finished.tiny.words(Path())[:-1], finished.store, finished.seconds
    command, store = ["run", *RECIPE, "--no-server", "--store"], tmp_path / "undisturbed"
    began = time.monotonic()
    ended_well(started_anew(*command, str(store)))
    return command, store, time.monotonic() - began


def test_killed_at_random_moments_a_run_ends_as_if_undisturbed(
    undisturbed: tuple[list[str], Path, float], tmp_path: Path
) -> None:
    command, whole, seconds = undisturbed
    draw = random.Random(SEED)
    expected = digest_of(whole, "triplets", "triplet_id")
    killed = stores = 0
    while killed < KILLS:
        # A run that got to its end leaves nothing to kill: on with a new store.
        stores += 1
        store = tmp_path / f"store-{stores}"
        words = [*command, str(store)]
        looks: list[int] = []
        with reader(store, looks):
            ended = False
            while killed < KILLS and not ended:
                moment = draw.uniform(0.1, 1.0) * min(seconds, LONGEST)
                child = start(*words)
                if kill(child, moment):
                    killed += 1
                else:
                    assert child.returncode == 0
                    ended = True
            if not ended:
                ended_well(tercet(*words))
        assert digest_of(store, "triplets", "triplet_id") == expected
        assert set(states(store)) == set(states(whole))
        parts = list(records(open_store(str(store))))
        assert looks[0] > 10
        assert looks[1] == len(parts) == len(list(records(open_store(str(whole)))))
        assert leftovers(store) == []


def servers(store: Path) -> set[int]:
    """Processes that are the store's Prefect server."""
    processes = set()
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and server.PROCESS in words and str(server.folder(store)) in words:
            processes.add(process.info["pid"])
    return processes


@contextmanager
def counted_servers(store: Path) -> Iterator[list[int]]:
    """How many servers the store had at once, looked at again and again."""
    counts: list[int] = []
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(0.25):
            counts.append(len(servers(store)))

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_killed_with_prefect_a_run_resumes_and_leaves_no_server(
    finished: Finished, prefect_folder: Path, tmp_path: Path
) -> None:
    draw = random.Random(SEED + 1)
    store = tmp_path / "store"
    ended_well(tercet(*finished.tiny.words(store, "--until", "ingest")))
    shutil.copytree(prefect_folder, server.folder(store))
    words = [word for word in finished.tiny.words(store) if word != "--no-server"]
    looks: list[int] = []
    try:
        with reader(store, looks), counted_servers(store) as counts:
            begun, all_parts = n_parts(store), n_parts(finished.store)
            for earliest, latest in ((0.1, 0.4), (0.5, 0.8)):
                # However late the kill comes, the run has not ended, nor has its server.
                with in_use(store), held_up(finished, store, "train"):
                    child = start(*words)
                    assert until(lambda: "\n" in child.stderr.read_text(), LIMIT)  # noqa: B023
                    assert child.stderr.read_text().startswith("Prefect server: http://127.0.0.1:")
                    parts = begun + draw.uniform(earliest, latest) * (all_parts - begun)
                    assert until(
                        lambda: child.poll() is not None or n_parts(store) >= round(parts),  # noqa: B023
                        1200,
                    )
                    assert kill(child, 0)
                    # It serves whoever comes next; left alone, it ends by itself.
                    assert len(servers(store)) == 1
            done = ended_well(tercet(*words))
            assert "Prefect server: " in done.stderr
    finally:
        left = servers(store)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(process).kill()
    assert left == set()
    assert max(counts) == 1
    assert digest_of(store, "triplets", "triplet_id") == digest_of(
        finished.store, "triplets", "triplet_id"
    )
    assert leftovers(store) == []


@pytest.mark.usefixtures("namespaces")
def test_a_service_loses_nothing_and_leaves_nothing(
    tiny_backbone: Path, prefect_folder: Path, tmp_path: Path
) -> None:
    """The shortest form of `benchmarks/soak.py`: each fate once, until answers are read."""
    shutil.copytree(tiny_backbone, tmp_path / "backbone")
    shutil.copytree(prefect_folder, tmp_path / "prefect")
    words = [str(tmp_path), "--minutes", "0", "--until", "parse"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "soak.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert sum(outcome["runs"].values()) == 6
    assert outcome["rows as without all this"]["generations"] > 100
