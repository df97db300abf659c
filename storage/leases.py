"""Leases: locks between machines, as objects of a bucket that their holders renew.

    locks/<name>   {"machine": …, "holder": …, "renewed": 3, "pid": …, "host": …, "who": …}

Whoever has seen one unchanged for `SECONDS` by its own clock takes it over, so that no clocks of
two machines are compared. That saves work and money, and nothing else leans on it: a holder that
stood still for longer may go on beside the next one.
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
# A holder that has not renewed its lease for this share of them counts as one that lost it.
_SURE = 0.75
_POLL = 1.0
# Servers refuse whoever's clock differs from theirs by more.
_CLOCKS_DIFFER = 900.0


class _Standing(NamedTuple):
    """What a lease says, its tag, and when it was put by the server's clock."""

    terms: dict[str, Any]
    tag: str
    put: float


@dataclass
class _Lease:
    """A lease of this process. renewed: when it began to put it last, by `_clock`."""

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
    """Holds the lease, waiting for it as long as necessary; gives what says if it still does.

    machine: no two processes that say the same ask for this lease at once. The rest as of
    `locks.hold`. Errors are those of the bucket.
    """
    said = {"pid": os.getpid(), "host": socket.gethostname(), "who": who}
    terms = {"machine": machine, "holder": uuid.uuid4().hex, "renewed": 0, **said}
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


def is_held(bucket: Bucket, path: str, machine: str) -> bool:
    """Whether a process of another machine seems to hold the lease.

    One that was killed seems to until a clock that differs from the server's would not.
    """
    standing = _standing(_Lease(bucket, path, {}))
    if standing is None or standing.terms.get("machine") == machine:
        return False
    return time.time() - standing.put < SECONDS + _CLOCKS_DIFFER


def _take(lease: _Lease, waiting: Callable[[str], None], give_up: Callable[[], None]) -> None:
    seen, since, told = "", 0.0, False
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
        elif not told:
            told = True
            holder = f"process {standing.terms.get('pid')} on {standing.terms.get('host')}"
            doing = standing.terms.get("who")
            waiting(f"{holder}, {doing}" if doing else holder)
        give_up()
        time.sleep(_POLL)


def _renew(lease: _Lease, done: threading.Event) -> None:
    """Renews the lease until that is done, or the lease is another's."""
    while not done.wait(SECONDS / 3):
        with suppress(OSError, BaseError):
            if not _put(lease, lease.tag):
                standing = _standing(lease)
                if standing is None or not _is_ours(lease, standing):
                    return
                lease.tag = standing.tag


def _put(lease: _Lease, over: str | None) -> bool:
    """Puts it over the object with this tag, or over none: False if that was refused."""
    began = _clock()
    # No two of its objects are the same, so that its tag always changes.
    lease.terms["renewed"] += 1
    tag = lease.bucket.swap(lease.path, json.dumps(lease.terms).encode(), over)
    if tag is None:
        # It may have been done, and the answer lost.
        standing = _standing(lease)
        if standing is None or standing.terms != lease.terms:
            return False
        tag = standing.tag
    lease.tag, lease.renewed = tag, began
    return True


def _standing(lease: _Lease) -> _Standing | None:
    try:
        data, known = lease.bucket.read(lease.path)
    except FileNotFoundError:
        return None
    return _Standing(json.loads(data), str(known["e_tag"]), known["last_modified"].timestamp())


def _is_sure(lease: _Lease) -> bool:
    """Whether nobody can have taken it over so soon."""
    return _clock() - lease.renewed < _SURE * SECONDS


def _clock() -> float:
    """Seconds, also those that the machine sleeps, which Linux's monotonic clock leaves out."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _is_ours(lease: _Lease, standing: _Standing | None) -> bool:
    return standing is not None and standing.terms["holder"] == lease.terms["holder"]
