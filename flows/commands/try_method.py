"""`tercet try`: sends a few of a method's prompts before a whole run is paid for."""

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tercet.flows.pipeline.step import Step, until
from tercet.flows.planning.estimates import requests_of, spread
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.flows.running.runner import open_run, order_of, run_step
from tercet.flows.terminal.lines import say, step_line
from tercet.flows.terminal.progress import reporter
from tercet.models.llm.messages import Answer, Request
from tercet.storage.artifacts import open_artifact
from tercet.tasks.knowledge.extract_generate import METHOD as EXTRACTION
from tercet.tasks.stage import BadInput

# Prompts are taken from this many parts in turn.
_PARTS = 4


def try_method(arguments: RunArguments, method: str, count: int) -> None:
    """Makes the method's inputs, sends `count` of its prompts and prints them with the answers.

    The prompts come from the first rows of several parts. Answers are kept in the store's pool, so
    a later run does not pay for them again; failed rows are asked again.

    Raises: BadInput for a method that the recipe lacks or that asks no language model.
    """
    whole = prepare(arguments)
    wanted = _step(whole, method)
    run_plan = RunPlan(
        whole.recipe,
        until(whole.steps, wanted.name),
        replace(arguments, until=wanted.name),
    )
    with open_run(run_plan, say) as handle:
        for step in run_plan.steps:
            if step.name == wanted.name:
                continue
            version = handle.fingerprints[step.name].version or ""
            made = open_artifact(handle.store, step.name, version).manifest() is not None
            if step.stage.asks is not None and not made:
                raise BadInput(
                    f"{method!r} needs the results of {step.name} for the whole corpus, which do "
                    f"not exist yet: try it first (tercet try … --method {EXTRACTION}), then run "
                    "it (tercet run … --until extract_parse)."
                )
            with reporter(step.name, sys.stderr.isatty()) as progress:
                result = run_step(handle, step, progress)
            if result.state != "reused":
                say(step_line(result))
        order = order_of(handle, wanted)
        assert order.resources.ask is not None
        requests = list(islice(_requests(order), count))
        if not requests:
            raise BadInput(f"{method!r} applies to no row of this corpus: there is nothing to ask.")
        answers = sorted(order.resources.ask(method, requests), key=lambda answer: answer.place)
        for number, (request, answer) in enumerate(zip(requests, answers, strict=True), start=1):
            print(_shown(number, len(requests), method, request, answer))
    kept = [answer for answer in answers if answer.error is None]
    if kept:
        tokens = sum(answer.prompt_tokens + answer.n_tokens for answer in kept)
        print(f"{len(kept)} answers, {tokens:,} tokens: kept, and not asked for again.")
    if len(kept) < len(answers):
        print(f"{len(answers) - len(kept)} failed: a run asks again.")


def _step(run_plan: RunPlan, method: str) -> Step:
    names = {step.stage.method: step for step in run_plan.steps if step.stage.asks is not None}
    if method not in names:
        known = f"it has: {', '.join(names)}" if names else "it has none"
        raise BadInput(f"The recipe has no method {method!r} that asks a language model ({known}).")
    return names[method]


def _requests(order: PartOrder) -> Iterator[Request]:
    """Requests of several parts in turn; a larger number begins with the same ones."""
    sources = spread(list(order.driving))
    place = 0
    for start in range(0, len(sources), _PARTS):
        some = deque(requests_of(order, source) for source in sources[start : start + _PARTS])
        while some:
            request = next(some[0], None)
            if request is None:
                some.popleft()
                continue
            some.rotate(-1)
            yield replace(request, place=place)
            place += 1


def _shown(number: int, total: int, method: str, request: Request, answer: Answer) -> str:
    told = f"{answer.finish_reason}, {answer.n_tokens} tokens, {answer.seconds:.1f} s"
    said = answer.raw if answer.error is None else f"({answer.error})"
    return (
        f"── {method} {number} of {total}: asked\n{request.prompt}\n── answered ({told})\n{said}\n"
    )
