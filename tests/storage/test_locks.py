"""Locks between processes, and leases between machines that have no disk in common."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import s3_server
from faulty_server import until

from tercet.storage import leases, locks
from tercet.storage.bucket import Bucket
from tercet.storage.store import Store

IN_A_BUCKET = pytest.mark.parametrize("store", ["moto"], indirect=True)


@pytest.fixture
def other(store: Store) -> Store:
    """The same store, of another machine."""
    (store.work / "other").mkdir()
    return Store(store.location, store.work / "other", store.objects)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SECONDS", 3.0)
    monkeypatch.setattr(leases, "_POLL", 0.1)


@IN_A_BUCKET
def test_machines_take_turns(store: Store, other: Store) -> None:
    holders: list[str] = []
    inside: list[str] = []

    def work() -> None:
        with locks.hold(other, "thing", holders.append, "the second"):
            inside.append("second")

    waiting = threading.Thread(target=work)
    with locks.hold(store, "thing", who="the first"):
        assert locks.is_held(other, "thing")
        waiting.start()
        # Longer than a lease lasts that nobody renews.
        time.sleep(4.5)
        assert inside == []
        inside.append("first")
    waiting.join()
    assert inside == ["first", "second"]
    assert len(holders) == 1
    assert holders[0].endswith(", the first")
    assert not locks.is_held(store, "thing")
    assert not locks.is_held(other, "thing")


@IN_A_BUCKET
def test_a_lease_that_is_not_renewed_is_taken_over(store: Store, other: Store) -> None:
    bucket = store.objects
    assert isinstance(bucket, Bucket)
    bucket.put("locks/thing", b'{"machine": "gone", "holder": "x", "pid": 1}', absent=True)
    began = time.monotonic()
    with locks.hold(store, "thing"):
        assert time.monotonic() - began > 3.0
    # Its own machine's dead need not be waited for.
    mine = locks._machine(store).encode()
    bucket.put("locks/thing", b'{"machine": "%s", "holder": "x"}' % mine, absent=True)
    assert not locks.is_held(store, "thing")
    assert locks.is_held(other, "thing")
    began = time.monotonic()
    with locks.hold(store, "thing"):
        assert time.monotonic() - began < 3.0


@IN_A_BUCKET
def test_who_lost_a_lease_leaves_it_to_the_next(store: Store, other: Store) -> None:
    bucket = store.objects
    assert isinstance(bucket, Bucket)
    with locks.hold(store, "thing"):
        taken = b'{"machine": "another", "holder": "y", "pid": 1}'
        bucket.put("locks/thing", taken, absent=False)
        time.sleep(3.5)
    assert bucket.get("locks/thing") == taken


@IN_A_BUCKET
def test_a_lease_survives_what_fails_on_the_way(
    store: Store, other: Store, bucket: s3_server.Proxy
) -> None:
    faults = [s3_server.ANSWER_LOST, s3_server.CONFLICT, s3_server.RESET]
    bucket.faults += [("PUT", "locks/thing", fault) for fault in faults]
    with locks.hold(store, "thing"):
        bucket.faults += [("PUT", "locks/thing", fault) for fault in faults]
        assert until(lambda: not bucket.faults)
        assert locks.is_held(other, "thing")
    assert not locks.is_held(other, "thing")


def test_a_lock_waits_and_is_free_when_its_holder_is_killed(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    holder = beside("hold")
    assert locks.alive(holder.pid)
    assert locks.is_held(store, "thing")
    assert not locks.is_held(store, "another thing")
    holders: list[str] = []

    def waiting(who: str) -> None:
        holders.append(who)
        holder.kill()

    with locks.hold(store, "thing", waiting):
        assert holders == [f"process {holder.pid}, the other run"]
        assert locks.is_held(store, "thing")
    assert not locks.is_held(store, "thing")
    with locks.hold(store, "thing", waiting):
        assert len(holders) == 1
