"""`tercet plan`: what a run would do and how long it would take, one line per step."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

from tercet.flows.formatting import count_of, format_clock
from tercet.flows.pipeline.step import Step, writer
from tercet.flows.planning import Estimate, PlannedStep, existing_store, moved_tags, plan
from tercet.flows.results import queries
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.models.plugins import package_of
from tercet.storage.artifacts import open_artifact, warnings_of
from tercet.storage.store import Store
from tercet.tasks.scoring.scorers import unused

WORDS = {
    "reuse": "reused",
    "resume": "resumed",
    "run": "to run",
    "unknown": "unknown until their weights are fetched",
}


def show_plan(arguments: RunArguments) -> None:
    """Prints one line per step, and the totals. Raises BadInput."""
    run_plan = prepare(arguments)
    store = existing_store(run_plan.store)
    with nullcontext() if store is None else store.as_listed():
        planned = plan(run_plan, store)
        of_store = (
            [] if store is None else [*moved_tags(run_plan, store), *_warnings(store, planned)]
        )
    if run_plan.chosen is not None:
        print(run_plan.chosen)
    for line in (*run_plan.idle, *run_plan.notes, *_installed(run_plan.steps), *of_store):
        print(line)
    for step in planned:
        print(plan_line(step))
    counts = {word: sum(step.state == state for step in planned) for state, word in WORDS.items()}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    print(f"{len(planned)} steps: {listed}{_time(planned)}.")
    for line in _asking(planned, run_plan.steps):
        print(line)
    turns = _turns(planned, run_plan.steps)
    if turns is not None:
        print(turns)
    idle = unused(run_plan.recipe.score, run_plan.recipe.select)
    if idle is not None:
        print(idle)


def _warnings(store: Store, planned: Sequence[PlannedStep]) -> list[str]:
    """Warnings of steps whose artifact exists."""
    rows: list[queries.Row] = []
    for step in planned:
        if step.state == "reuse":
            assert step.version is not None
            rows += warnings_of(open_artifact(store, step.step, step.version).manifest())
    return queries.list_warnings(rows)


def _installed(steps: Sequence[Step]) -> list[str]:
    """A line for each installed package that adds something to these steps."""
    used: dict[str, list[str]] = {}
    for chosen in (chosen for step in steps for chosen in step.stage.uses(step.config)):
        if module := getattr(chosen, "module", ""):
            names_of_package = used.setdefault(package_of(module), [])
            names_of_package.append(f"{type(chosen).__name__.lower()} {chosen.name}")  # type: ignore[attr-defined]
    return [
        f"From {name}: {', '.join(dict.fromkeys(names_of_package))}."
        for name, names_of_package in used.items()
    ]


def _time(planned: Sequence[PlannedStep]) -> str:
    """The time of the steps that ask no language model; "" if there is nothing to make."""
    open_steps = [step for step in planned if step.state != "reuse" and step.asking is None]
    timed = [step for step in open_steps if step.seconds is not None]
    if not open_steps:
        return ""
    unknown = [step.step for step in open_steps if step.seconds is None]
    total = sum(step.seconds or 0.0 for step in timed)
    if unknown and total < 1:
        return "; time unknown"
    message = f"; about {format_clock(total)}"
    if unknown:
        message += f", unknown for {_listed(unknown) if len(unknown) < 6 else len(unknown)}"
    return message


def _asking(planned: Sequence[PlannedStep], steps: Sequence[Step]) -> list[str]:
    """The language model's requests, per step and in total; empty if there are none."""
    lines = [_asked(step.step, step.asking) for step in planned if step.asking is not None]
    unknown = [step.step for step in planned if step.lacking]
    if lines:
        lines.append(_total([step.asking for step in planned if step.asking], unknown))
    reused = {step.step for step in planned if step.state == "reuse"}
    pending = {
        step.name: tuple(name for name in step.needs if name not in reused) for step in steps
    }
    asks = [step.name for step in steps if step.stage.asks is not None and step.name not in reused]
    # Steps whose inputs must be requested first are listed separately, so that commands that cost
    # nothing cannot be mistaken for commands that cost money.
    groups: dict[tuple[str, ...], list[PlannedStep]] = {}
    for step in planned:
        if step.lacking:
            behind = _behind(step.lacking, pending)
            groups.setdefault(tuple(name for name in asks if name in behind), []).append(step)
    for before, later in sorted(groups.items(), key=lambda group: len(group[0])):
        lines.append(_known_later(before, later, pending))
    return lines


def _turns(planned: Sequence[PlannedStep], steps: Sequence[Step]) -> str | None:
    """One line if several models answer: their order, and what each is asked."""
    reused = {step.step for step in planned if step.state == "reuse"}
    steps_of: dict[str, list[str]] = {}
    for step in steps:
        who = None if step.name in reused else writer(step)
        if who is not None:
            decoding = getattr(step.config, "decoding", None)
            label = who if decoding is None else f"{who} ({decoding.backend})"
            steps_of.setdefault(label, []).append(step.name)
    if len(steps_of) < 2:
        return None
    turns = "; then ".join(f"{who} for {_listed(names)}" for who, names in steps_of.items())
    return f"Models answer one after another, each ended before the next starts: {turns}."


def _total(estimates: Sequence[Estimate], unknown: Sequence[str]) -> str:
    """One line with the known total of all requests."""
    requests = sum(one.requests - one.answered for one in estimates)
    prompts = sum(one.prompt_tokens for one in estimates)
    answers = sum(one.answer_tokens for one in estimates)
    longest = "" if all(one.known_length for one in estimates) else "at most "
    message = f"In all: {requests:,} requests, about {prompts:,} prompt tokens"
    message += f", {longest}{answers:,} answer tokens"
    times = [one.seconds for one in estimates if one.requests > one.answered]
    if times and None not in times:
        message += f"; about {format_clock(sum(time or 0.0 for time in times))}"
    else:
        message += "; time unknown" if times else ""
    costs = [one.money for one in estimates]
    if costs and None not in costs:
        message += f"; {longest}{sum(cost or 0.0 for cost in costs):,.4f} by the recipe's prices"
    if unknown:
        message += f"; plus an unknown number for {_listed(unknown)}"
    return message + "."


def _behind(names: Iterable[str], pending: Mapping[str, Sequence[str]]) -> set[str]:
    """These steps, and all unfinished steps that they depend on."""
    behind: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in behind:
            behind.add(name)
            open_names.extend(pending[name])
    return behind


def _known_later(
    before: Sequence[str], later: Sequence[PlannedStep], pending: Mapping[str, Sequence[str]]
) -> str:
    """One line: the steps to run before the number of these steps' requests is known.

    before: the steps among them that ask a language model.
    """
    lacking = dict.fromkeys(name for step in later for name in step.lacking)
    # Running the last steps of the lacking ones includes the rest.
    brought = _behind((need for name in lacking for need in pending[name]), pending)
    last = [name for name in lacking if name not in brought]
    commands = "; ".join(f"tercet run … --until {name}" for name in last)
    makes = "makes" if len(last) == 1 else "make"
    requests = f"requests for {_listed(before)}" if before else "none"
    return (
        f"How many requests {_listed([step.step for step in later])} will make is known only after "
        f"{_listed(last)}, which {makes} {requests} ({commands})."
    )


def _listed(names: Sequence[str]) -> str:
    """Names joined as in a sentence: `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _asked(step: str, estimate: Estimate) -> str:
    """One line: a step's number of requests, their tokens, time and cost."""
    looked = f". (from {estimate.sampled:,} prompts)"
    if estimate.requests == estimate.answered:
        answered = f": {estimate.answered:,} rows are answered already" if estimate.answered else ""
        return f"{step} has nothing new to ask{answered}{looked}"
    most = "" if estimate.known_length else "at most "
    message = (
        f"{step} asks {estimate.requests - estimate.answered:,} rows"
        + (f" ({estimate.answered:,} more are answered already)" if estimate.answered else "")
        + f": about {estimate.prompt_tokens:,} prompt tokens, "
        f"{most}{estimate.answer_tokens:,} answer tokens"
    )
    if estimate.seconds is not None:
        message += f", about {format_clock(estimate.seconds)} at the rate seen so far"
    if estimate.money is not None:
        message += f", {most}{estimate.money:,.4f} by the recipe's prices"
    return message + looked


def plan_line(step: PlannedStep) -> str:
    """One line: the step, what will happen to it, why, and how much there is to do."""
    parts = [f"{step.step:<32} {step.state:<7}"]
    if step.why:
        parts.append("; ".join(step.why))
    if step.parts is not None:
        done, total = step.parts
        if step.state == "resume" or done:
            parts.append(f"({done} of {total} parts exist)")
    if step.rows is not None:
        parts.append(f"[{step.rows:,} rows in]")
    if step.seconds is not None:
        parts.append(f"about {format_clock(step.seconds)}")
    if step.failed:
        parts.append(f"[{count_of(step.failed, 'failed row')}: --retry-failed asks again]")
    return " ".join(parts).rstrip()
