"""Event loops whose time stands still while one of them is held up.

On a machine that is slow or stalls, a time-out would elapse although its answer is only late. Here
no loop is ever late: time goes on when each loop has turned since it last did, and only by a small
step unless none of them has anything to do. Where nothing is held up it is the time of a clock.
"""

import asyncio
import selectors
import threading
import time

# How long a loop waits for something at most; by how much time goes on at once, at most, while a
# loop has something to do, and while none has.
_WAIT, _STEP, _LONG_STEP = 0.004, 0.01, 0.1


class _Time:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self._read = time.monotonic()
        self._loops: set[selectors.BaseSelector] = set()
        # Those that have turned since the last step, and those that have waited in vain since
        # anybody had something to do.
        self._turned: set[selectors.BaseSelector] = set()
        self._idle: set[selectors.BaseSelector] = set()

    def now(self) -> float:
        return self._now

    def joins(self, loop: selectors.BaseSelector) -> None:
        with self._lock:
            self._loops.add(loop)

    def leaves(self, loop: selectors.BaseSelector) -> None:
        with self._lock:
            for loops in (self._loops, self._turned, self._idle):
                loops.discard(loop)

    def turns(self, loop: selectors.BaseSelector) -> None:
        with self._lock:
            self._turned.add(loop)
            if self._turned >= self._loops:
                read = time.monotonic()
                most = _LONG_STEP if self._idle >= self._loops else _STEP
                self._now += min(read - self._read, most)
                self._read = read
                self._turned.clear()

    def waited(self, loop: selectors.BaseSelector, in_vain: bool) -> None:
        with self._lock:
            if in_vain:
                self._idle.add(loop)
            else:
                self._idle.clear()


_TIME = _Time()
now = _TIME.now


class _Turns(selectors.DefaultSelector):
    """Tells of each turn of its loop, and lets it wait for a moment only."""

    def __init__(self) -> None:
        super().__init__()
        _TIME.joins(self)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        _TIME.turns(self)
        found = super().select(_WAIT if timeout is None else min(timeout, _WAIT))
        # A loop does not wait at all where it has something to do already.
        _TIME.waited(self, in_vain=not found and timeout != 0)
        return found

    def close(self) -> None:
        _TIME.leaves(self)
        super().close()


class EvenLoop(asyncio.SelectorEventLoop):
    """A loop in the time of all of its kind."""

    def __init__(self) -> None:
        super().__init__(_Turns())

    def time(self) -> float:
        return now()
