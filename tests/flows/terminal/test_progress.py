"""The numbers that progress shows, and when it shows them."""

import pytest

from tercet.flows.service.pipeline_flow import PrefectArtifact
from tercet.flows.terminal.progress import LogLines, ProgressReading, Reporter, reporter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Seen:
    def __init__(self, every: float = 10.0) -> None:
        self.every = every
        self.shown: list[ProgressReading] = []
        self.closed = 0

    def show(self, numbers: ProgressReading) -> None:
        self.shown.append(numbers)

    def close(self, numbers: ProgressReading) -> None:
        self.closed += 1


def test_silent_for_two_seconds_then_at_most_every_ten() -> None:
    clock, seen = Clock(), Seen()
    with Reporter([seen], clock) as progress:
        for done in range(240):
            progress(done, 240, "rows")
            clock.now += 0.125
    assert [numbers.done for numbers in seen.shown] == [16, 96, 176]
    assert seen.closed == 1


def test_lines_go_to_whoever_wants_them_as_often_as_it_wants() -> None:
    clock, said = Clock(), list[str]()
    with Reporter([LogLines("train", said.append, 60.0)], clock) as progress:
        for done in range(100):
            progress(done, 100, "steps")
            clock.now += 1.0
    assert said == [
        "train: 2 of 100 steps, 1.0 steps/s, 1:38 left",
        "train: 62 of 100 steps, 1.0 steps/s, 0:38 left",
    ]


def test_rate_is_this_runs_own() -> None:
    clock, seen = Clock(), Seen()
    progress = Reporter([seen], clock)
    progress(1000, 1300, "rows")
    clock.now += 4
    progress(1100, 1300, "rows")
    (numbers,) = seen.shown
    assert numbers.rate == pytest.approx(25.0)
    assert numbers.left == pytest.approx(8.0)
    assert numbers.percent == pytest.approx(100 * 1100 / 1300)
    assert numbers.text() == "1,100 of 1,300 rows, 25 rows/s, 0:08 left"


def test_another_unit_starts_again() -> None:
    clock, seen = Clock(), Seen(every=0.0)
    progress = Reporter([seen], clock)
    progress(0, 10, "rows")
    clock.now += 5
    progress(500, None, "texts")
    clock.now += 2
    progress(504, None, "texts")
    first, second = seen.shown
    assert (first.rate, first.left, first.percent) == (0.0, None, 0.0)
    assert (second.rate, second.left) == (2.0, None)
    assert second.text() == "504 texts, 2.0 texts/s"


def test_another_model_starts_again() -> None:
    clock, seen = Clock(), Seen(every=0.0)
    progress = Reporter([seen], clock)
    for _ in range(2):
        progress(10, 1000, "texts")
        clock.now += 100
        # Threads may report a little out of order, which starts nothing.
        progress(510, 1000, "texts")
        progress(508, 1000, "texts")
        clock.now += 100
    assert [round(numbers.rate, 2) for numbers in seen.shown] == [5.0, 4.98, 0.0, 5.0, 4.98]


def test_bar_on_a_terminal_goes_when_it_is_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.flows.terminal.progress.QUIET_SECONDS", 0.0)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    progress = reporter("train", tty=True)
    progress(5, 10, "steps")
    progress(10, 10, "steps")
    out, err = capsys.readouterr()
    assert out == ""
    assert "5 of 10 steps" in err


def test_prefect_out_of_reach_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tercet.flows.terminal.progress.QUIET_SECONDS", 0.0)

    asked = []

    def broken(*args: object, **kwargs: object) -> None:
        asked.append(kwargs)
        raise ConnectionError("no server")

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", broken)
    with reporter("train", False, PrefectArtifact("train")) as progress:
        progress(5, 10, "steps")
    assert asked
