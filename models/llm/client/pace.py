"""How many rows may be in flight at an endpoint: as many as it can take.

Slow start, additive increase and multiplicative decrease, as in TCP, over rows instead of bytes.
Nothing here sends, waits or reads a clock by itself.
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import ceil

START = 16
DOUBLING_SECONDS = 0.5
# How many errors among the last outcomes mean that the endpoint, not single rows, is at fault.
_OUTCOMES, _ERRORS = 16, 4
# Full windows in which additive increase goes from nothing to the top.
_ROUNDS = 32
# No more rows are open than are answered in this share of the timeout, so that none times out only
# because of those before it.
_SHARE = 0.5
# Seconds in which a list is answered: what a kill may lose.
_LIST_SECONDS = 5.0
# The longest pause that a server is granted.
LONGEST_PAUSE = 3600.0


class Pace:
    """The limit of one endpoint, between 1 and `top` rows.

    It starts at `START` and, from the first answers on, doubles every `DOUBLING_SECONDS` while
    nothing goes wrong: an endpoint of any width is full within seconds, and a narrower one says so
    before thousands are open.
    Any trouble halves it and ends the doubling. From then on a full window of answers adds
    top / 32 rows; up to half of what the endpoint last sustained, it doubles the limit.
    A slow endpoint that takes whatever comes never says that it is full: beyond `START`, no more
    is open than it answers in half of `timeout`.

    timeout: seconds that a row has.
    clock: seconds, monotonic; times passed to the methods are of this clock.
    draw: a number in [0, 1), for the jitter of pauses.
    """

    def __init__(
        self, top: int, timeout: float, clock: Callable[[], float], draw: Callable[[], float]
    ) -> None:
        self.top = top
        self._seconds = timeout * _SHARE
        self._clock, self._draw = clock, draw
        self._cut_at = float("-inf")
        self._paused_until = float("-inf")
        self._outcomes: deque[bool] = deque(maxlen=_OUTCOMES)
        self.restart()

    def restart(self) -> None:
        """Starts over: the endpoint is unknown, or has come back."""
        self._limit = float(min(START, self.top))
        # When the doubling began; None before the first answer and after trouble.
        self._doubling_since: float | None = None
        self._doubles = True
        # Below this, an answered row adds a row; `_bore`: answers came since the last cut.
        self._quick_below = 0.0
        self._bore = True
        self._pushes = 0
        self._outcomes.clear()
        # Rows a second, over one turn of all that may be open, since answers come in bursts; None
        # before the first turn. `_turn`: times and rows, of which the first is only a time, since
        # when the endpoint has had something to do; `_turned`: the sum of the others.
        self._rate: float | None = None
        self._turn: deque[tuple[float, int]] = deque()
        self._turned = 0

    def limit(self) -> int:
        """How many rows may be open now; 0 while the endpoint asks for a pause."""
        now = self._clock()
        if now < self._paused_until:
            return 0
        limit = int(self._limit)
        if self._doubling_since is not None:
            # 2 ** 13 exceeds every limit.
            limit <<= min(13, int((now - self._doubling_since) / DOUBLING_SECONDS))
        if self._rate is not None:
            limit = min(limit, max(START, ceil(self._rate * self._seconds)))
        elif self._turn:
            limit = min(limit, START)
        return max(1, min(self.top, limit))

    def list_size(self, most: int) -> int:
        """How many rows may go out together, of `most` at best."""
        if self._rate is None:
            return min(most, START)
        return max(1, min(most, int(self._rate * _LIST_SECONDS)))

    def began(self) -> None:
        """The endpoint, which had nothing to do, was sent rows."""
        self._turn.clear()
        self._turn.append((self._clock(), 0))
        self._turned = 0

    def answered(self, rows: int) -> None:
        """`rows` open rows were answered."""
        self._outcomes.append(True)
        self._bore = True
        self._pushes = 0
        if self._turn:
            self._measure(rows)
        if self._doubles:
            if self._doubling_since is None:
                self._doubling_since = self._clock()
            return
        quick = min(float(rows), max(0.0, self._quick_below - self._limit))
        self._limit += quick
        self._limit += (rows - quick) * max(1.0, self.top / _ROUNDS) / self._limit
        self._limit = min(float(self.top), self._limit)

    def _measure(self, rows: int) -> None:
        now, whole = self._clock(), self._unpaused()
        self._turn.append((now, rows))
        self._turned += rows
        while self._turned - self._turn[1][1] >= whole:
            self._turn.popleft()
            self._turned -= self._turn[0][1]
        if self._turned >= whole:
            self._rate = self._turned / max(1e-3, now - self._turn[0][0])

    def pushed_back(self, sent_at: float, pause: float | None = None) -> None:
        """The endpoint is overloaded (429, 503), or asks for `pause` seconds.

        It is left alone for that long, or for a time that doubles until it answers again. Rows
        sent before the last cut say nothing new.
        """
        if sent_at > self._cut_at:
            self._cut()
            self._pushes += 1
            if pause is None:
                pause = backoff(self._pushes, self._draw())
        if pause is not None:
            until = self._clock() + min(pause, LONGEST_PAUSE)
            self._paused_until = max(self._paused_until, until)

    def resume(self) -> None:
        """Ends the pause: the endpoint answers."""
        self._paused_until = float("-inf")
        self._pushes = 0

    def erred(self, sent_at: float) -> None:
        """A request failed with an error that may be its row's own fault (500, a time-out).

        Only if there are many, one in four of the last sixteen, is the endpoint in trouble.
        """
        self._outcomes.append(False)
        if self._outcomes.count(False) >= _ERRORS and sent_at > self._cut_at:
            self._cut()

    def _cut(self) -> None:
        bore = float(max(1, self._unpaused()))
        self._doubles, self._doubling_since = False, None
        self._limit = max(1.0, bore / 2)
        if self._bore:
            self._quick_below, self._bore = self._limit, False
        self._cut_at = self._clock()
        self._outcomes.clear()

    def _unpaused(self) -> int:
        paused, self._paused_until = self._paused_until, float("-inf")
        try:
            return self.limit()
        finally:
            self._paused_until = paused


def backoff(tried: int, draw: float, base: float = 0.5, most: float = 30.0) -> float:
    """Seconds before the attempt after `tried` >= 1 failed ones: full jitter, draw in [0, 1)."""
    return float(draw * min(most, base * 2.0 ** min(tried - 1, 16)))


def retry_after(value: str | None, now: Callable[[], float]) -> float | None:
    """Seconds that a Retry-After header asks for; None if there is none that can be read.

    now: seconds since 1970, for a header that is a date.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now()
    # NaN compares as neither.
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else 0.0 if seconds <= 0 else None
