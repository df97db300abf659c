"""`tercet plan`: what a run would do, as a table on the terminal."""

from collections.abc import Mapping
from typing import Any

from tercet.flows.plan import PlannedStep, plan
from tercet.flows.runner import prepare

WORDS = {
    "reuse": "reused",
    "resume": "resumed",
    "run": "to run",
    "unknown": "unknown until fetched",
}


def show_plan(arguments: Mapping[str, Any], store: str) -> None:
    """Prints one line a step, and what it all comes to. Raises BadInput."""
    planned = plan(prepare(store=store, **arguments))
    for step in planned:
        print(plan_line(step))
    counts = {word: sum(step.state == state for step in planned) for state, word in WORDS.items()}
    told = [f"{count} {word}" for word, count in counts.items() if count]
    print(f"{len(planned)} steps: {', '.join(told)}.")


def plan_line(step: PlannedStep) -> str:
    """One line: the step, what happens to it, why, how much there is to do."""
    said = [f"{step.step:<32} {step.state:<7}"]
    if step.why:
        said.append("; ".join(step.why))
    if step.parts is not None:
        done, total = step.parts
        if step.state == "resume" or done:
            said.append(f"({done} of {total} parts are there)")
    if step.rows is not None:
        said.append(f"[{step.rows:,} rows in]")
    return " ".join(said).rstrip()
