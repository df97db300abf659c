"""Controls how many rows may be in flight at an endpoint.

It uses TCP's slow start, additive increase and multiplicative decrease, over rows, not bytes. The
caller passes all times, in seconds of its own clock.
"""

import random
import time
from datetime import UTC
from email.utils import parsedate_to_datetime

# Limit for an endpoint that has not answered yet.
START = 32
# Full windows in which additive increase goes from 0 to the top.
_ROUNDS = 32
# No more rows are open than are answered in this share of the timeout, so that no row times out
# merely because it waits for its turn.
_SHARE = 0.5
# The longest pause that a server can ask for, in seconds.
LONGEST_PAUSE = 3600.0


class Pace:
    """The limit of one endpoint, between 1 and `top` rows.

    The limit starts at `START`. Each answer adds a row, so a full window doubles the limit. An
    overload or a timeout halves it; from then on it doubles only up to that half, and above it a
    full window adds top / 32 rows. A slow endpoint that queues everything never reports an
    overload: beyond `START`, no more rows are open than it answers in half of `timeout`.

    timeout: seconds per row. paused_until: end of the endpoint's pause.
    """

    def __init__(self, top: int, timeout: float) -> None:
        self._top, self._seconds = top, timeout * _SHARE
        self.restart()

    def restart(self) -> None:
        """Resets the limit, for an endpoint that has come back."""
        self._limit = float(min(START, self._top))
        self._timely = float(START)
        self._doubles_below = float(self._top)
        self._cut_at = self.paused_until = float("-inf")
        self._pushes, self._bore = 0, True

    def limit(self) -> int:
        """The number of rows that may be open; the caller must observe the pause."""
        return max(1, int(min(self._limit, self._timely)))

    def answered(self, seconds: float, rows: int) -> None:
        """Notes an answered row. seconds: since it was sent. rows: answered in that time, with
        itself."""
        self._pushes, self._bore = 0, True
        self._timely = max(START, rows * self._seconds / max(seconds, 1e-3))
        doubles = self._limit < self._doubles_below
        step = 1.0 if doubles else max(1.0, self._top / _ROUNDS) / self._limit
        self._limit = min(self._top, self._limit + step)

    def cut(self, sent_at: float, now: float) -> bool:
        """Halves the limit; returns False, without effect, for a row sent before the last cut."""
        if sent_at <= self._cut_at:
            return False
        self._limit, self._cut_at = max(1.0, self.limit() / 2), now
        if self._bore:
            self._doubles_below, self._bore = self._limit, False
        return True

    def push_back(self, sent_at: float, now: float, pause: float | None) -> None:
        """Notes an overload (429, 503): pauses for `pause` seconds, if the endpoint asks for it.

        Otherwise the pause doubles until the endpoint answers again.
        """
        if self.cut(sent_at, now) and pause is None:
            self._pushes += 1
            pause = backoff(self._pushes)
        self.paused_until = max(self.paused_until, now + (pause or 0.0))

    def resume(self) -> None:
        """Ends the pause, since the endpoint answers."""
        self._pushes, self.paused_until = 0, float("-inf")


def backoff(tried: int, base: float = 0.5, most: float = 30.0) -> float:
    """Seconds to wait after `tried` >= 1 failed attempts: exponential, with full jitter."""
    return random.random() * min(most, base * 2.0 ** min(tried - 1, 16))


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; None if it is missing or cannot be read."""
    try:
        seconds = float(value or "")
    except ValueError:
        try:
            at = parsedate_to_datetime(value or "")
        except ValueError:
            return None
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
    # NaN is neither positive nor at most 0.
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else 0.0 if seconds <= 0 else None
