"""How many rows may be in flight at an endpoint: as many as it can take.

Slow start, additive increase and multiplicative decrease, as in TCP, over rows instead of bytes.
Nothing here sends, waits or reads a clock by itself: times are seconds of the caller's clock.
"""

import random
import time
from datetime import UTC
from email.utils import parsedate_to_datetime

# Rows in flight at an endpoint of which nothing is known yet.
START = 32
# Full windows in which additive increase goes from nothing to the top.
_ROUNDS = 32
# No more rows are open than are answered in this share of the timeout, so that none times out only
# because of those before it.
_SHARE = 0.5
# The longest pause that a server is granted, in seconds.
LONGEST_PAUSE = 3600.0


class Pace:
    """The limit of one endpoint, between 1 and `top` rows.

    It starts at `START`, and each answer adds a row, which doubles the limit with every full
    window. Trouble halves it; from then on it doubles only up to that half, and a full window of
    answers adds top / 32 rows. A slow endpoint that takes whatever comes never says that it is
    full: beyond `START`, no more is open than it answers in half of `timeout`.

    timeout: seconds that a row has. paused_until: when the pause ends that the endpoint asked for.
    """

    def __init__(self, top: int, timeout: float) -> None:
        self._top, self._seconds = top, timeout * _SHARE
        self.restart()

    def restart(self) -> None:
        """Starts over: the endpoint is unknown, or has come back."""
        self._limit = float(min(START, self._top))
        self._timely = float(START)
        self._doubles_below = float(self._top)
        self._cut_at = self.paused_until = float("-inf")
        self._pushes, self._bore = 0, True

    def limit(self) -> int:
        """How many rows may be open; the pause is the caller's to keep."""
        return max(1, int(min(self._limit, self._timely)))

    def answered(self, seconds: float, rows: int) -> None:
        """A row was answered after so long, in which so many were answered, itself included."""
        self._pushes, self._bore = 0, True
        self._timely = max(START, rows * self._seconds / max(seconds, 1e-3))
        doubles = self._limit < self._doubles_below
        step = 1.0 if doubles else max(1.0, self._top / _ROUNDS) / self._limit
        self._limit = min(self._top, self._limit + step)

    def cut(self, sent_at: float, now: float) -> bool:
        """Halves the limit; not for a row sent before the last cut, which says nothing new."""
        if sent_at <= self._cut_at:
            return False
        self._limit, self._cut_at = max(1.0, self.limit() / 2), now
        if self._bore:
            self._doubles_below, self._bore = self._limit, False
        return True

    def push_back(self, sent_at: float, now: float, pause: float | None) -> None:
        """The endpoint is overloaded (429, 503), or asks for `pause` seconds.

        It is left alone for that long, or for a time that doubles until it answers again.
        """
        if self.cut(sent_at, now) and pause is None:
            self._pushes += 1
            pause = backoff(self._pushes)
        self.paused_until = max(self.paused_until, now + (pause or 0.0))

    def resume(self) -> None:
        """Ends the pause: the endpoint answers."""
        self._pushes, self.paused_until = 0, float("-inf")


def backoff(tried: int, base: float = 0.5, most: float = 30.0) -> float:
    """Seconds before the attempt after `tried` >= 1 failed ones: exponential, with full jitter."""
    return random.random() * min(most, base * 2.0 ** min(tried - 1, 16))


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for; None if there is none that can be read."""
    try:
        seconds = float(value or "")
    except ValueError:
        try:
            at = parsedate_to_datetime(value or "")
        except ValueError:
            return None
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
    # NaN compares as neither.
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else 0.0 if seconds <= 0 else None
