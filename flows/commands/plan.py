"""`tercet plan`: what a run would do, as a table on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from tercet.flows.estimates import Estimate
from tercet.flows.plan import PlannedStep, plan
from tercet.flows.progress import readable_time
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
    for line in _asking(planned):
        print(line)


def _asking(planned: Sequence[PlannedStep]) -> list[str]:
    """What the language model will be asked, step by step; nothing where nothing is."""
    lines = [_asked(step.step, step.asking) for step in planned if step.asking is not None]
    later = [step for step in planned if step.lacking]
    if later:
        lacking = dict.fromkeys(name for step in later for name in step.lacking)
        until = "; ".join(f"tercet run … --until {name}" for name in lacking)
        lines.append(
            f"How much {', '.join(step.step for step in later)} will ask is told once "
            f"{', '.join(lacking)} is made ({until})."
        )
    return lines


def _asked(step: str, told: Estimate) -> str:
    """One line: how much a step will ask, how long that takes and what it costs."""
    looked = f". (from {told.sampled:,} prompts)"
    if told.requests == told.answered:
        answered = f": {told.answered:,} rows are answered already" if told.answered else ""
        return f"{step} has nothing new to ask{answered}{looked}"
    about = "" if told.counted else "about "
    most = "" if told.known_length else "at most "
    said = (
        f"{step} asks {told.requests - told.answered:,} rows"
        + (f" ({told.answered:,} more are answered already)" if told.answered else "")
        + f": {about}{told.prompt_tokens:,} tokens of prompts, "
        f"{most}{told.answer_tokens:,} of answers"
    )
    if told.seconds is not None:
        said += f", about {readable_time(told.seconds)} at the rate seen so far"
    if told.money is not None:
        said += f", {most}{told.money:,.4f} by the recipe's prices"
    return said + looked


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
