"""Leases: locks between machines, as objects of a bucket that their holders renew.

    locks/<name>   {"machine": …, "holder": …, "renewed": 3, "pid": …, "host": …, "who": …}

A machine that has seen a lease unchanged for `SECONDS` by its own clock takes it over; clocks of
different machines are never compared. A lease only prevents duplicate work: a holder that paused
for longer may go on beside its successor, and correctness must not depend on it.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from obstore.exceptions import BaseError

from tercet.storage.bucket import Bucket

SECONDS = 60.0
# A holder that has not renewed its lease for this share of `SECONDS` must assume that it lost it.
_SURE = 0.75
_POLL = 1.0
# S3 servers refuse requests from a clock that differs from theirs by more seconds.
_CLOCKS_DIFFER = 900.0


class _Standing(NamedTuple):
    """A lease in the bucket: its content, its e_tag, and when it was put by the server's clock."""

    terms: dict[str, Any]
    tag: str
    put: float


@dataclass
class _Lease:
    """A lease of this process. renewed: start of the last successful put, by `_clock`."""

    bucket: Bucket
    path: str
    terms: dict[str, Any]
    tag: str = ""
    renewed: float = 0.0


@contextmanager
def hold(
    bucket: Bucket,
    path: str,
    machine: str,
    waiting: Callable[[str], None],
    who: str,
    give_up: Callable[[], None],
) -> Iterator[Callable[[], bool]]:
    """Holds the lease, waiting for it as long as necessary; yields a check that it is still held.

    machine: processes with the same value never ask for this lease at once. All further arguments
    are as in `locks.hold`. Raises the bucket's errors.
    """
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "who": who}
    terms = {"machine": machine, "holder": uuid.uuid4().hex, "renewed": 0, **holder}
    lease, done = _Lease(bucket, path, terms), threading.Event()
    _take(lease, waiting, give_up)
    renewing = threading.Thread(target=_renew, args=(lease, done), daemon=True)
    renewing.start()
    try:
        yield lambda: _is_sure(lease)
    finally:
        done.set()
        renewing.join()
        with suppress(OSError, BaseError):
            if _is_sure(lease) or _is_ours(lease, _standing(lease)):
                bucket.delete(path)


def is_held(bucket: Bucket, path: str, machine: str, listed: bool = False) -> bool:
    """Whether a process of another machine seems to hold the lease.

    listed: a listing has just shown it: whoever has released it since held it then.
    """
    standing = _standing(_Lease(bucket, path, {}))
    if standing is None:
        return listed
    return standing.terms.get("machine") != machine and not is_over(standing.put)


def is_over(put: float) -> bool:
    """Whether a lease that was last put then, by the server's clock, has no holder any more.

    A killed holder counts for `SECONDS` plus the largest difference between clocks.
    """
    return time.time() - put >= SECONDS + _CLOCKS_DIFFER


def _take(lease: _Lease, waiting: Callable[[str], None], give_up: Callable[[], None]) -> None:
    seen, since, reported = "", 0.0, False
    while True:
        standing = _standing(lease)
        if standing is not None and standing.tag != seen:
            seen, since = standing.tag, _clock()
        if (
            standing is None
            or standing.terms.get("machine") == lease.terms["machine"]
            or _clock() - since > SECONDS
        ):
            if _put(lease, None if standing is None else standing.tag):
                return
        elif not reported:
            reported = True
            holder = f"process {standing.terms.get('pid')} on {standing.terms.get('host')}"
            doing = standing.terms.get("who")
            waiting(f"{holder}, {doing}" if doing else holder)
        give_up()
        time.sleep(_POLL)


def _renew(lease: _Lease, done: threading.Event) -> None:
    """Renews the lease until `done` is set or another holder has it."""
    while not done.wait(SECONDS / 3):
        with suppress(OSError, BaseError):
            if not _put(lease, lease.tag):
                standing = _standing(lease)
                if standing is None or not _is_ours(lease, standing):
                    return
                lease.tag = standing.tag


def _put(lease: _Lease, over: str | None) -> bool:
    """Puts the lease if the bucket's object still has this tag (None: if there is no object)."""
    began = _clock()
    # The content must change with each put: an e_tag is a digest of it.
    lease.terms["renewed"] += 1
    tag = lease.bucket.swap(lease.path, json.dumps(lease.terms).encode(), over)
    if tag is None:
        # The put may have succeeded although its answer was lost.
        standing = _standing(lease)
        if standing is None or standing.terms != lease.terms:
            return False
        tag = standing.tag
    lease.tag, lease.renewed = tag, began
    return True


def _standing(lease: _Lease) -> _Standing | None:
    try:
        data, meta = lease.bucket.read(lease.path)
    except FileNotFoundError:
        return None
    return _Standing(json.loads(data), str(meta["e_tag"]), meta["last_modified"].timestamp())


def _is_sure(lease: _Lease) -> bool:
    """Whether the last renewal is too recent for anybody to have taken the lease over."""
    return _clock() - lease.renewed < _SURE * SECONDS


def _clock() -> float:
    """Seconds including sleep of the machine, which Linux's monotonic clock leaves out."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_ours(lease: _Lease, standing: _Standing | None) -> bool:
    return standing is not None and standing.terms["holder"] == lease.terms["holder"]
