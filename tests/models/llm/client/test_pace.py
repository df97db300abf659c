import math
import random
from types import SimpleNamespace

import pytest

from tercet.models.llm.client.pace import LONGEST_PAUSE, START, Pace, backoff, retry_after

TIMEOUT = 300.0


@pytest.fixture(autouse=True)
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are half of the longest that they may be."""
    monkeypatch.setattr(random, "random", lambda: 0.5)


def turn(pace: Pace, seconds: float = 0.1, rows: int | None = None) -> int:
    """All that may be open, or so many rows, are answered after so long; the limit then."""
    rows = pace.limit() if rows is None else rows
    for _ in range(rows):
        pace.answered(seconds, rows)
    return pace.limit()


def full(top: int = 256) -> Pace:
    """An endpoint that takes all that it may get."""
    pace = Pace(top, TIMEOUT)
    while pace.limit() < top:
        turn(pace)
    return pace


def test_each_window_of_answers_doubles_it_until_the_top() -> None:
    pace = Pace(1000, TIMEOUT)
    assert pace.limit() == START
    limits = [turn(pace) for _ in range(6)]
    assert limits == [min(1000, START * 2**n) for n in range(1, 7)]
    assert Pace(3, TIMEOUT).limit() == 3


def test_no_more_is_open_than_half_of_the_timeout_answers() -> None:
    pace = Pace(1000, TIMEOUT)
    # One a second: 150 in half of 300 seconds.
    while pace.limit() < 150:
        turn(pace, float(pace.limit()))
    assert turn(pace, 150) == 150
    # Ten times as fast.
    assert turn(pace, 15) > 150
    # A very slow one gets several rows at once.
    pace = Pace(256, TIMEOUT)
    assert turn(pace, 290) == START


def test_rows_that_take_long_do_not_keep_others_back() -> None:
    """Each takes a minute, however many there are."""
    pace = Pace(512, TIMEOUT)
    for _ in range(4):
        turn(pace, 60)
    assert pace.limit() == 512


def test_trouble_halves_it_once_a_burst() -> None:
    pace = full(256)
    for _ in range(50):
        pace.push_back(sent_at=104.0, now=105.0, pause=0.0)
    assert pace.limit() == 128
    pace.cut(sent_at=105.5, now=106.0)
    assert pace.limit() == 64
    for now in range(110, 130):
        pace.cut(sent_at=now - 0.5, now=now)
    assert pace.limit() == 1
    # An endpoint that comes back is a new one.
    pace.restart()
    assert pace.limit() == START


def test_recovery_doubles_to_half_of_what_was_borne_and_then_adds() -> None:
    pace = full(256)
    for now in (1.0, 2.0, 3.0):
        pace.cut(sent_at=now - 0.5, now=now)
    assert [pace.limit(), turn(pace), turn(pace)] == [32, 64, 128]
    # 256 / 32 rows for a full window, a little less as the window grows.
    assert 135 <= turn(pace) <= 136
    for _ in range(30):
        turn(pace)
    assert pace.limit() == 256


def test_a_longer_pause_is_not_shortened_and_ends_when_the_endpoint_answers() -> None:
    pace = full()
    pace.push_back(sent_at=100.0, now=100.0, pause=7.0)
    pace.push_back(sent_at=100.0, now=101.0, pause=1.0)
    assert pace.paused_until == 107
    pace.resume()
    assert pace.paused_until < 0


def test_without_a_time_pauses_double_until_something_is_answered() -> None:
    pace, pauses = Pace(256, TIMEOUT), []
    for now in (60.0, 120.0, 180.0, 240.0):
        pace.push_back(sent_at=now - 1, now=now, pause=None)
        pauses.append(pace.paused_until - now)
    assert pauses == [0.25, 0.5, 1.0, 2.0]
    pace.answered(1.0, 1)
    pace.push_back(sent_at=299.0, now=300.0, pause=None)
    assert pace.paused_until == 300.25


def test_backoff_doubles_with_full_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [backoff(n) for n in (1, 2, 3, 7, 8, 5000)] == [0.25, 0.5, 1.0, 15.0, 15.0, 15.0]
    monkeypatch.setattr(random, "random", lambda: 0.0)
    assert backoff(4) == 0.0
    monkeypatch.setattr(random, "random", lambda: 0.999)
    assert backoff(4) < 4.0


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
def test_retry_after_is_seconds_or_a_date(
    value: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: 784111770.0)
    monkeypatch.setattr("tercet.models.llm.client.pace.time", clock)
    found = retry_after(value)
    assert found == seconds or (found is not None and math.isclose(found, seconds or -1))
