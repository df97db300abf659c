"""The numbers that progress shows, and when it shows them; tables of text."""

import pytest

from tercet.flows.running.runner import StepResult
from tercet.flows.service.pipeline_flow import PrefectArtifact
from tercet.flows.terminal import text_table
from tercet.flows.terminal.progress import LogLines, ProgressReading, Reporter, step_line


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
    clock, lines = Clock(), list[str]()
    with Reporter([LogLines("train", lines.append, 60.0)], clock) as progress:
        for done in range(100):
            progress(done, 100, "steps")
            clock.now += 1.0
    assert lines == [
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


def test_prefect_out_of_reach_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken(*args: object, **kwargs: object) -> None:
        calls.append(kwargs)
        raise ConnectionError("no server")

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", broken)
    clock = Clock()
    with Reporter([PrefectArtifact("train")], clock) as progress:
        clock.now += 100.0
        progress(5, 10, "steps")
    assert calls


@pytest.mark.parametrize(
    ("state", "tables", "end"),
    [
        ("made", {"sentences": 1200, "rejects": 0, "contamination": 3}, "3 rows of contamination"),
        ("made", {"candidates": 0, "rejects": 0}, " no rows"),
        ("reused", {}, " reused"),
    ],
)
def test_a_step_is_told_with_its_state_its_time_if_any_and_its_rows(
    state: str, tables: dict[str, int], end: str
) -> None:
    line = step_line(StepResult("sample", "abc", state, 1.24, tables))
    assert line.startswith("sample  ")
    assert line.endswith(end)
    assert (" in 1.2 s" in line) == (state == "made")


def test_columns_are_squeezed_wrapped_or_put_below_each_other() -> None:
    text = "word " * 100
    lines, cut = text_table.render(["id", "text"], [[7, text.strip()]], 40)
    assert cut
    assert max(map(len, lines)) <= 40
    assert len(lines) == 2 + text_table.MOST_LINES
    lines, cut = text_table.render(["id", "text"], [[7, text.strip()]])
    assert (len(lines), cut) == (3, False)
    many = [f"column_{i}" for i in range(9)]
    lines, _ = text_table.render(many, [["some words of text"] * 9], 60)
    assert lines[0].startswith("── row 1 ─")
    assert len(lines) == 10


def test_wide_characters_count_twice() -> None:
    lines, _ = text_table.render(["a", "b"], [["日本", "x"], ["abcd", "y"]])
    assert lines[2:] == ["日本  x", "abcd  y"]


def test_nothing_reaches_the_terminal_as_a_command() -> None:
    assert text_table.cell("a\x1b[2Jb\u202e") == r"a\x1b[2Jb\u202e"
    assert text_table.cell({"old": None, "new": "x"}) == '{"new": "x"}'
    assert text_table.cell(None) == text_table.NULL
