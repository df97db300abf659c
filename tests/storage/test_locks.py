"""Locks of a store, between processes and between threads."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from tercet.storage import locks
from tercet.storage.store import Store


def test_a_lock_waits_and_is_free_when_its_holder_is_killed(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    holder = beside("hold")
    assert locks.alive(holder.pid)
    assert locks.is_held(store, "thing")
    assert not locks.is_held(store, "another thing")
    said: list[str] = []

    def waiting(who: str) -> None:
        said.append(who)
        holder.kill()

    with locks.hold(store, "thing", waiting):
        assert said == [f"process {holder.pid}, the other run"]
        assert locks.is_held(store, "thing")
    assert not locks.is_held(store, "thing")
    with locks.hold(store, "thing", waiting):
        assert len(said) == 1


def test_threads_exclude_each_other(store: Store) -> None:
    inside: list[int] = []
    seen: list[int] = []

    def work() -> None:
        for _ in range(10):
            with locks.hold(store, "counter"):
                inside.append(1)
                time.sleep(0.001)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 40
