"""Locks between processes on one disk, released by the system when their holder dies.

A store in a bucket also has leases (`tercet.storage.leases`), which other machines see.
"""

import fcntl
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tercet.storage import leases
from tercet.storage.bucket import Bucket
from tercet.storage.store import Store, clear_errors

_POLL = 0.1
# `is_held` takes the lock, shared, for a moment: a lock that becomes free within this time (in
# seconds) had no holder worth reporting.
_PATIENCE = 0.05

_held: set[int] = set()


def _forget() -> None:
    """Closes a forked child's copies of the handles, which would keep locks of a dead parent."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def hold(
    store: Store,
    name: str,
    waiting: Callable[[str], None] = lambda holder: None,
    who: str = "",
    give_up: Callable[[], None] = lambda: None,
) -> Iterator[Callable[[], bool]]:
    """Holds the store's lock of this name, waiting for it as long as necessary.

    Yields a check whether it is still held: a lease may be lost to another machine.

    Args:
        store: The lock lies in its work directory and covers one machine (or one shared file
            system). A bucket adds a lease of that name; a killed holder's lasts a minute.
        name: The name of the lock; threads of one process exclude each other as well.
        waiting: Called once with the holder (process and `who`) if it has to wait.
        who: A description of this holder for those who wait, e.g. the run.
        give_up: Called repeatedly while it waits; an exception from it ends the wait.
    """
    path = _path(store, name)
    with clear_errors(store.location):
        path.parent.mkdir(parents=True, exist_ok=True)
    handle = _acquire(store, path, waiting, give_up)
    _held.add(handle)
    try:
        # The holder's name only informs waiting processes; a full disk is ignored, so that `gc` can
        # still take the lock.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({"pid": os.getpid(), "who": who}).encode(), 0)
        with _lease(store, path.name, waiting, who, give_up) as is_sure:
            yield is_sure
    finally:
        # Unlink while holding it; `_acquire` notices if it has locked an unlinked file.
        with suppress(OSError):
            path.unlink()
        _held.discard(handle)
        os.close(handle)


def is_held(store: Store, name: str) -> bool:
    """Whether a living process holds the lock now; for other machines see `leases.is_held`."""
    with suppress(OSError):
        handle = os.open(_path(store, name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
    if not isinstance(store.objects, Bucket):
        return False
    path = f"locks/{_path(store, name).name}"
    listing = store.listed(path)
    if listing and (path not in listing.objects or leases.is_over(listing.objects[path].written)):
        return False
    with clear_errors(store.location):
        return leases.is_held(store.objects, path, _machine(store), listing is not None)


def sweep(store: Store) -> None:
    """Removes the lock files of killed processes; a lock that is held stays."""
    with suppress(FileNotFoundError):
        for path in (store.work / "locks").iterdir():
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    # Take the lock before unlinking; otherwise a second sweeper could delete a
                    # newly created file.
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _stands(handle, path):
                        path.unlink()
                finally:
                    os.close(handle)


def alive(process: int) -> bool:
    """Whether a process with this id is running on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def _lease(
    store: Store,
    name: str,
    waiting: Callable[[str], None],
    who: str,
    give_up: Callable[[], None],
) -> Iterator[Callable[[], bool]]:
    """Holds the lease that goes with a lock held here; nothing to do for a local store."""
    if not isinstance(store.objects, Bucket):
        yield lambda: True
        return
    with ExitStack() as held:
        place, machine = f"locks/{name}", _machine(store)
        with clear_errors(store.location):
            lease = leases.hold(store.objects, place, machine, waiting, who, give_up)
            is_sure = held.enter_context(lease)
        yield is_sure


def _machine(store: Store) -> str:
    """An id shared by all processes that use this work directory, and so these locks."""
    store.near.create("machine", uuid.uuid4().hex.encode())
    return (store.near.get("machine") or b"").decode()


def _path(store: Store, name: str) -> Path:
    return store.work / "locks" / re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _acquire(
    store: Store, path: Path, waiting: Callable[[str], None], give_up: Callable[[], None]
) -> int:
    patient_until = time.monotonic() + _PATIENCE
    reported = False
    while True:
        with clear_errors(store.location):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _stands(handle, path):
                return handle
            os.close(handle)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            if not reported and time.monotonic() > patient_until:
                reported = True
                waiting(holder)
            give_up()
            time.sleep(_POLL if reported else _PATIENCE / 5)
        except BaseException:
            os.close(handle)
            raise


def _stands(handle: int, path: Path) -> bool:
    """Whether the locked file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']}" + (f", {holder['who']}" if holder["who"] else "")
    except (ValueError, KeyError, TypeError):
        return "another process"
