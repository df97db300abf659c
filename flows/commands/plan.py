"""`tercet plan`: what a run would do, as a table on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.planning.estimates import Estimate
from tercet.flows.planning.plan import PlannedStep, plan
from tercet.flows.running.runner import prepare
from tercet.flows.terminal.progress import readable_time

WORDS = {
    "reuse": "reused",
    "resume": "resumed",
    "run": "to run",
    "unknown": "unknown until fetched",
}


def show_plan(arguments: Mapping[str, Any], store: str) -> None:
    """Prints one line a step, and what it all comes to. Raises BadInput."""
    run_plan = prepare(store=store, **arguments)
    planned = plan(run_plan)
    for step in planned:
        print(plan_line(step))
    counts = {word: sum(step.state == state for step in planned) for state, word in WORDS.items()}
    told = [f"{count} {word}" for word, count in counts.items() if count]
    print(f"{len(planned)} steps: {', '.join(told)}.")
    for line in _asking(planned, run_plan.steps):
        print(line)


def _asking(planned: Sequence[PlannedStep], steps: Sequence[Step]) -> list[str]:
    """What the language model will be asked, step by step; nothing where nothing is."""
    lines = [_asked(step.step, step.asking) for step in planned if step.asking is not None]
    made = {step.step for step in planned if step.state == "reuse"}
    pending = {step.name: tuple(name for name in step.needs if name not in made) for step in steps}
    asks = [step.name for step in steps if step.stage.asks is not None and step.name not in made]
    # Those whose inputs somebody must be asked for stand apart: a command that costs nothing is
    # told first, and none that costs something is taken for it.
    groups: dict[tuple[str, ...], list[PlannedStep]] = {}
    for step in planned:
        if step.lacking:
            behind = _behind(step.lacking, pending)
            groups.setdefault(tuple(name for name in asks if name in behind), []).append(step)
    for before, later in sorted(groups.items(), key=lambda group: len(group[0])):
        lines.append(_told_later(before, later, pending))
    return lines


def _behind(names: Iterable[str], pending: Mapping[str, Sequence[str]]) -> set[str]:
    """These steps, and all still to be made that they need."""
    found: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names.extend(pending[name])
    return found


def _told_later(
    before: Sequence[str], later: Sequence[PlannedStep], pending: Mapping[str, Sequence[str]]
) -> str:
    """One line: what must be made until it is told how much these steps will ask.

    before: the steps that a language model is asked for on the way.
    """
    lacking = dict.fromkeys(name for step in later for name in step.lacking)
    # The last of them bring the others with them.
    brought = _behind((need for name in lacking for need in pending[name]), pending)
    last = [name for name in lacking if name not in brought]
    commands = "; ".join(f"tercet run … --until {name}" for name in last)
    asked = f"for which {_listed(before)} will be asked" if before else "for which nobody is asked"
    return (
        f"How much {_listed([step.step for step in later])} will ask is told once {_listed(last)} "
        f"{'is' if len(last) == 1 else 'are'} made, {asked} ({commands})."
    )


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
