"""Messages on standard error, and the line about a finished step."""

import sys
from contextlib import suppress

from tercet.flows.running.runner import StepResult


def say(text: str) -> None:
    """Prints to standard error at once; a closed pipe is not an error."""
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


def step_line(result: StepResult) -> str:
    """One line about a finished step."""
    rows = ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in result.tables.items() if count
    )
    time = "" if result.state == "reused" else f" in {result.seconds:.1f} s"
    return f"{result.step:<32} {result.state:<8}{time:<12} {rows}"
