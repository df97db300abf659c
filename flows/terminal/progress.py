"""Messages on standard error; a step's progress, as a bar on a terminal or as lines, and its end.

A step that takes less than two seconds shows nothing. All views show the same numbers: the amount
done, the rate since the step first reported, and the time left at that rate.
"""

import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from tercet.flows.formatting import format_clock, format_rate, printable
from tercet.flows.pipeline.step import Step
from tercet.flows.running.runner import Make, StepResult
from tercet.flows.terminal import interrupts

QUIET_SECONDS = 2.0
BAR_SECONDS = 0.1
LINE_SECONDS = 10.0


@dataclass(frozen=True)
class ProgressReading:
    """One reading. rate: units per second, 0.0 while unknown; left: seconds, None if unknown."""

    done: int
    total: int | None
    unit: str
    rate: float
    left: float | None

    @property
    def percent(self) -> float:
        """From 0 to 100; 0 while the total is unknown."""
        return min(100.0, 100.0 * self.done / self.total) if self.total else 0.0

    def text(self) -> str:
        """The text of a log line, e.g. `1,200 of 4,000 rows, 85 rows/s, 0:33 left`."""
        of = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.done:,}{of} {self.unit}"]
        if self.rate:
            parts.append(f"{format_rate(self.rate)} {self.unit}/s")
        if self.left is not None:
            parts.append(f"{format_clock(self.left)} left")
        return ", ".join(parts)


class View(Protocol):
    """A display of progress, updated at most once every `every` seconds."""

    every: float

    def show(self, numbers: ProgressReading) -> None: ...
    def close(self, numbers: ProgressReading) -> None: ...


class Bar:
    """A bar on the terminal (standard error), removed when it is full or closed."""

    every = BAR_SECONDS

    def __init__(self, step: str) -> None:
        self._step = step
        self._bar: Any = None
        self._task: Any = None

    def show(self, numbers: ProgressReading) -> None:
        if numbers.total is not None and numbers.done >= numbers.total:
            self.close(numbers)
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[told]}", markup=False),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task(self._step, told="")
            self._bar.start()
        self._bar.update(
            self._task, completed=numbers.done, total=numbers.total, told=numbers.text()
        )

    def close(self, numbers: ProgressReading) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def say(text: str) -> None:
    """Prints to standard error at once; a closed pipe is not an error."""
    with suppress(BrokenPipeError):
        print(printable(text), file=sys.stderr, flush=True)


class LogLines:
    """A line at fixed intervals, for logs; by default on standard error."""

    def __init__(
        self, step: str, say: Callable[[str], None] = say, every: float = LINE_SECONDS
    ) -> None:
        self.every = every
        self._step = step
        self._say = say

    def show(self, numbers: ProgressReading) -> None:
        self._say(f"{self._step}: {numbers.text()}")

    def close(self, numbers: ProgressReading) -> None:
        pass


class Reporter:
    """Called by a stage with (done, total or None, unit); cheap enough for a tight loop.

    A context manager that removes the bar at its end; a full bar disappears by itself.
    """

    def __init__(self, views: list[View], clock: Callable[[], float] = time.monotonic) -> None:
        self._views = views
        self._clock = clock
        self._born = clock()
        self._next = [self._born + QUIET_SECONDS] * len(views)
        self._start: tuple[float, int, str] | None = None
        self._seen = 0
        self._last: ProgressReading | None = None

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        interrupts.check()
        now = self._clock()
        # A count far below the last one begins another round, such as another model's texts.
        anew = 2 * done < self._seen
        if self._start is None or self._start[2] != unit or done < self._start[1] or anew:
            # Work that a resumed step finds done must not count towards this run's rate.
            self._start = (now, done, unit)
        self._seen = done
        ended = total is not None and done >= total
        if not ended and now < min(self._next):
            return
        self._last = numbers = self._read(now, done, total, unit)
        for index, view in enumerate(self._views):
            if now >= self._next[index] or (ended and isinstance(view, Bar)):
                view.show(numbers)
                self._next[index] = now + view.every

    def _read(self, now: float, done: int, total: int | None, unit: str) -> ProgressReading:
        assert self._start is not None
        began, before, _ = self._start
        rate = (done - before) / (now - began) if now > began else 0.0
        left = (total - done) / rate if rate > 0 and total is not None else None
        return ProgressReading(done, total, unit, rate, left)

    def close(self) -> None:
        """Removes the bar and closes the other views."""
        if self._last is not None:
            for view in self._views:
                view.close(self._last)

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._last is not None:
            for view in self._views:
                if isinstance(view, Bar):
                    view.close(self._last)


def reporter(step_name: str, tty: bool, *more: View) -> Reporter:
    """A step's reporter: a bar on a terminal (`tty`), otherwise lines, plus the given views."""
    return Reporter([Bar(step_name) if tty else LogLines(step_name), *more])


# Columns for the name of a step.
_STEP = 32
# A table of counts, whose number of rows says nothing.
_OF_COUNTS = "corpus_outcomes"
# Tables whose rows are not what the table is named after: a row of `anchors` says how a corpus's
# anchors are chosen.
_RULES = {
    "anchors": ("rule for anchors", "rules for anchors"),
    "anchor_shares": ("corpus with anchors", "corpora with anchors"),
}


def show_step(step: Step, make: Make, reused: bool = True) -> StepResult:
    """Shows a step's progress and then a line about it, if it was `reused` too.

    A listener of `run_steps`.
    """
    terminal = sys.stderr.isatty()
    with reporter(step.name, terminal) as progress:
        result = make(progress)
    if reused or result.state != "reused":
        line = step_line(result)
        if terminal:
            width, indent = shutil.get_terminal_size().columns, " " * (_STEP + 1)
            line = "\n".join(textwrap.wrap(line, width, subsequent_indent=indent))
        say(line)
    return result


def step_line(result: StepResult) -> str:
    """One line about a finished step."""
    rows = ", ".join(
        f"{count:,} {_rows_of(name, count)}"
        for name, count in result.tables.items()
        if count and name != _OF_COUNTS
    )
    if result.tables and not rows:
        rows = "no rows"
    time = "" if result.state == "reused" else f" in {result.seconds:.1f} s"
    return f"{result.step:<{_STEP}} {result.state:<8}{time:<12} {rows}".rstrip()


def _rows_of(table: str, count: int) -> str:
    name = table.replace("_", " ")
    one, several = _RULES.get(table, (_singular(name), name))
    if one == several:
        one, several = f"row of {name}", f"rows of {name}"
    return one if count == 1 else several


def _singular(name: str) -> str:
    """A table's name for one of its rows; the name itself if it has no plural."""
    if name.endswith("ies"):
        return f"{name.removesuffix('ies')}y"
    return name.removesuffix("s")
