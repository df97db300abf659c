"""Messages on standard error, and the line about a finished step."""

import shutil
import sys
import textwrap
from contextlib import suppress

from tercet.flows.formatting import printable
from tercet.flows.pipeline.step import Step
from tercet.flows.running.runner import Make, StepResult
from tercet.flows.terminal.progress import reporter


def say(text: str) -> None:
    """Prints to standard error at once; a closed pipe is not an error."""
    with suppress(BrokenPipeError):
        print(printable(text), file=sys.stderr, flush=True)


# Columns for the name of a step.
_STEP = 32
# A table of counts, of which a number of rows says nothing.
_OF_COUNTS = "corpus_outcomes"
# Tables whose rows are not what they are named after: one says how a corpus's anchors are chosen.
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
        say(_wrapped(line, shutil.get_terminal_size().columns) if terminal else line)
    return result


def _wrapped(line: str, width: int) -> str:
    """The line broken between words, with what follows below the state of the step."""
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=" " * (_STEP + 1)))


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
