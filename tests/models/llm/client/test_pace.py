import math
from itertools import pairwise

import pytest

from tercet.models.llm.client.pace import LONGEST_PAUSE, Pace, backoff, retry_after

TIMEOUT = 300.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(top: int = 256, draw: float = 0.5) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(top, TIMEOUT, clock, lambda: draw), clock


def pause_of(pace: Pace, clock: Clock) -> float:
    """In quarters of a second."""
    began, pause = clock.now, 0.0
    while pace.limit() == 0:
        pause += 0.25
        clock.now = began + pause
    clock.now = began
    return pause


def test_it_starts_at_16_and_doubles_every_half_second() -> None:
    pace, clock = paced(1000)
    assert pace.limit() == 16
    clock.now += 60
    # Nothing was answered yet: nothing is known.
    assert pace.limit() == 16
    pace.answered(1)
    limits = []
    for _ in range(8):
        limits.append(pace.limit())
        clock.now += 0.5
    assert limits == [16, 32, 64, 128, 256, 512, 1000, 1000]


def turn(pace: Pace, clock: Clock, seconds: float, rows: int | None = None) -> int:
    """All that may be open, or so many rows, are sent and answered after so long."""
    rows = pace.limit() if rows is None else rows
    pace.began()
    clock.now += seconds
    for _ in range(rows):
        pace.answered(1)
    clock.now += 5
    return pace.limit()


def test_no_more_is_open_than_half_of_the_timeout_answers() -> None:
    pace, clock = paced(1000)
    assert pace.list_size(64) == 16
    turn(pace, clock, 16)
    # One a second: 150 in half of 300 seconds, 5 in a list.
    assert pace.limit() == 150
    assert pace.list_size(64) == 5
    assert turn(pace, clock, 1.5) == 1000
    assert pace.list_size(64) == 64
    # A very slow one gets one row at a time, but several at once.
    pace, clock = paced()
    assert turn(pace, clock, 290) == 16
    assert pace.list_size(64) == 1


def test_rows_that_take_long_do_not_keep_others_back() -> None:
    """Each takes a minute, however many there are."""
    pace, clock = paced(512)
    assert [turn(pace, clock, 60) for _ in range(5)] == [40, 100, 250, 512, 512]


def test_answers_in_bursts_do_not_seem_fast() -> None:
    pace, clock = paced(1000)
    pace.began()
    limits = [pace.limit()]
    while limits[-1] < 1000:
        clock.now += 60
        for _ in range(limits[-1]):
            clock.now += 0.0001
            pace.answered(1)
        clock.now += 5
        limits.append(pace.limit())
    assert all(later <= 2.6 * sooner for sooner, later in pairwise(limits))


def test_the_time_in_which_nothing_was_asked_does_not_count() -> None:
    pace, clock = paced(1000)
    turn(pace, clock, 16)
    clock.now += 1000
    assert turn(pace, clock, 60, rows=20) == 150
    assert pace.list_size(64) == 5
    assert turn(pace, clock, 75) == 300


def test_trouble_halves_it_once_a_burst() -> None:
    pace, clock = paced()
    pace.answered(1)
    clock.now += 5
    assert pace.limit() == 256
    for _ in range(50):
        pace.pushed_back(sent_at=104.0, pause=0.0)
    assert pace.limit() == 128
    clock.now += 1
    pace.pushed_back(sent_at=105.5, pause=0.0)
    assert pace.limit() == 64
    # No doubling by the clock any more.
    clock.now += 60
    assert pace.limit() == 64
    for _ in range(20):
        clock.now += 1
        pace.pushed_back(sent_at=clock.now - 0.5, pause=0.0)
    assert pace.limit() == 1
    # An endpoint that comes back is a new one.
    pace.restart()
    assert pace.limit() == 16


def test_recovery_doubles_to_half_of_what_was_borne_and_then_adds() -> None:
    pace, clock = paced()
    pace.answered(1)
    clock.now += 5
    for _ in range(3):
        clock.now += 1
        pace.pushed_back(sent_at=clock.now - 0.5, pause=0.0)
    # 256 was borne: 128 is quickly reached again.
    assert pace.limit() == 32
    pace.answered(32)
    assert pace.limit() == 64
    pace.answered(64)
    assert pace.limit() == 128
    # 256 / 32 rows for a full window.
    pace.answered(128)
    assert pace.limit() == 136
    for _ in range(1000):
        pace.answered(32)
    assert pace.limit() == 256


def test_a_pause_stops_everything_until_it_is_over() -> None:
    pace, clock = paced()
    pace.answered(1)
    pace.pushed_back(sent_at=100.0, pause=7.0)
    assert pace.limit() == 0
    # A shorter one that comes later takes nothing away.
    pace.pushed_back(sent_at=100.0, pause=1.0)
    clock.now = 106.9
    assert pace.limit() == 0
    clock.now = 107.0
    assert pace.limit() == 8
    pace.pushed_back(sent_at=107.0, pause=3600.0)
    assert pace.limit() == 0
    # It was seen to answer before.
    pace.resume()
    assert pace.limit() == 4


def test_without_a_time_pauses_double_until_something_is_answered() -> None:
    pace, clock = paced(draw=0.5)
    pauses = []
    for _ in range(4):
        clock.now += 60
        pace.pushed_back(sent_at=clock.now - 1)
        pauses.append(pause_of(pace, clock))
    assert pauses == [0.25, 0.5, 1.0, 2.0]
    clock.now += 60
    pace.answered(1)
    pace.pushed_back(sent_at=clock.now - 1)
    assert pause_of(pace, clock) == 0.25


def test_single_errors_are_their_rows_and_many_are_the_endpoints() -> None:
    pace, clock = paced(16)
    for _ in range(40):
        for _ in range(13):
            pace.answered(1)
        for _ in range(3):
            pace.erred(sent_at=clock.now)
    assert pace.limit() == 16
    for _ in range(4):
        pace.erred(sent_at=clock.now)
    assert pace.limit() == 8


def test_backoff_doubles_with_full_jitter() -> None:
    assert [backoff(n, 0.5) for n in (1, 2, 3, 7, 8, 5000)] == [0.25, 0.5, 1.0, 15.0, 15.0, 15.0]
    assert backoff(4, 0.0) == 0.0
    assert backoff(4, 0.999) < 4.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("soon", None),
        ("3", 3.0),
        ("0.25", 0.25),
        ("-5", 0.0),
        ("inf", LONGEST_PAUSE),
        ("999999", LONGEST_PAUSE),
        # 784111777 seconds since 1970.
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7.0),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 7.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    found = retry_after(value, lambda: 784111770.0)
    assert found == seconds or (found is not None and math.isclose(found, seconds or -1))
