"""Messages on standard error, and the line about a finished step."""

import sys
from contextlib import suppress

from tercet.flows.running.runner import StepResult


def say(text: str) -> None:
    """Prints to standard error at once; a closed pipe is not an error."""
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


# Tables whose rows are not what they are named after: one says how a corpus's anchors are chosen.
_RULES = {"anchors": "rules for anchors", "anchor_shares": "corpora with anchors"}


def step_line(result: StepResult) -> str:
    """One line about a finished step."""
    rows = ", ".join(
        f"{count:,} {_rows_of(name)}" for name, count in result.tables.items() if count
    )
    time = "" if result.state == "reused" else f" in {result.seconds:.1f} s"
    return f"{result.step:<32} {result.state:<8}{time:<12} {rows}"


def _rows_of(table: str) -> str:
    name = _RULES.get(table, table.replace("_", " "))
    return name if name.endswith("s") else f"rows of {name}"
