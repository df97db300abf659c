"""What killed processes left in sight goes at the next start; what the living use stays."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import staged

from tercet.storage import locks
from tercet.storage.artifacts import open_artifact
from tercet.storage.leftovers import sweep
from tercet.storage.objects import Folder
from tercet.storage.store import Store


def test_locks_and_files_of_dead_processes_go(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    sweep(store)
    holder, killed = beside("hold"), subprocess.Popen(["true"])
    killed.wait()
    dead, alive = killed.pid, os.getpid()
    (store.work / "scratch").mkdir()
    for pid in (dead, alive):
        (store.work / f".probe-{pid}-ab").write_text("")
        for name in (f"sql-{pid}", f"bm25-{pid}-ab"):
            (store.work / "scratch" / name).mkdir()
            (store.work / "scratch" / name / "spill").write_text("")
    (store.work / "locks" / "artifact-train-aaaa").write_text('{"pid": 1}')
    with locks.hold(store, "mine"):
        sweep(store)
        assert {path.name for path in (store.work / "locks").iterdir()} == {"thing", "mine"}
    left = [path for path in store.work.rglob("*") if str(dead) in path.name]
    # They may be of a process that has this number somewhere else, and writes.
    assert len(left) == 3
    for path in store.work.rglob("*"):
        os.utime(path, (time.time() - 4_000,) * 2)
    sweep(store)
    assert not any(path.exists() for path in left)
    assert len([path for path in store.work.rglob("*") if str(alive) in path.name]) == 3
    assert locks.is_held(store, "thing")
    holder.kill()
    holder.wait()
    sweep(store)
    assert list((store.work / "locks").iterdir()) == []


def test_locks_exclude_each_other_while_they_are_swept(store: Store) -> None:
    inside: list[int] = []
    seen: list[int] = []
    done = threading.Event()

    def sweeping() -> None:
        while not done.is_set():
            sweep(store)

    def work() -> None:
        for _ in range(30):
            with locks.hold(store, "counter"):
                inside.append(1)
                time.sleep(0.001)
                seen.append(len(inside))
                inside.pop()

    sweepers = [threading.Thread(target=sweeping) for _ in range(2)]
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in (*sweepers, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in sweepers:
        thread.join()
    assert seen == [1] * 90


def test_files_of_a_killed_attempt_at_a_part_go_once_every_part_is_made(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifact = open_artifact(store, "train", "aaaa")
    artifact.adopt_plan([{}, {}])
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("weights")

    class Killed(BaseException):
        pass

    def killed(folder: Folder, path: str, *_: Any, **__: Any) -> bool:
        if path.endswith("/_parts/00000.json"):
            # As of a process that is not there any more to remove what it brought.
            monkeypatch.setattr(Folder, "delete", lambda folder, path: None)
            (folder.root / f"{named()[-1]}#1").write_text("half")
            raise Killed
        return bool(put(folder, path, *_, **__))

    def named() -> list[str]:
        (note,) = artifact.scratch().glob("uploading-*")
        return list(json.loads(note.read_text()))

    put = Folder.put
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", killed)
        part = staged(artifact, 0)
        with pytest.raises(Killed):
            artifact.commit(0, type(part)(part.files, part.schemas, model), "key0", {})
    monkeypatch.undo()
    brought = set(named())
    there = store.sizes(artifact.path).keys()
    assert brought <= there
    for index in (1, 0):
        artifact.commit(index, staged(artifact, index), f"key{index}", {})
        assert brought <= store.sizes(artifact.path).keys()
    artifact.finish({})
    left = store.sizes(artifact.path).keys()
    assert not brought & left
    assert not any("#" in path for path in left)
    assert artifact.intact()
