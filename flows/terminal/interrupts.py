"""Interrupts: Ctrl-C (SIGINT) and SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_asked, _held = threading.Event(), threading.Event()


def listen() -> None:
    """Makes both signals raise KeyboardInterrupt in the main thread.

    Python prints and then drops an exception raised within a `__del__`. So nothing is raised
    there: the signal is remembered, and the next `check` raises.
    """
    _asked.clear()
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _interrupt)
        # A shell's background job ignores Ctrl-C and should keep doing so.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)


def check() -> None:
    """Raises KeyboardInterrupt in the main thread if a signal has arrived."""
    if _asked.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Raises nothing within the block: the signal is remembered, for the next `check`."""
    _held.set()
    try:
        yield
    finally:
        _held.clear()


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.set()
    if _held.is_set():
        return
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return
        frame = frame.f_back
    raise KeyboardInterrupt
