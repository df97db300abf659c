"""`tercet try`: a few prompts of a method with the model's answers, before anything is spent."""

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from tercet.flows.commands.run import step_line
from tercet.flows.pipeline.step import Step
from tercet.flows.planning.estimates import requests_of, spread
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.runner import RunPlan, open_run, order_of, prepare, run_step
from tercet.flows.terminal.progress import reporter
from tercet.models.llm.messages import Answer, Request
from tercet.storage.artifacts import open_artifact
from tercet.tasks.stage import BadInput

EXTRACTION = "extract"
# Parts that are asked about in turns.
_PARTS = 4


def try_method(arguments: Mapping[str, Any], method: str, count: int, store: str) -> None:
    """Runs what the method reads, asks `count` of its prompts and prints them with the answers.

    The prompts are those of the first rows of several parts. Answers lie in the store's pool, so
    that the run that follows does not pay for them again; a row that fails is asked again.

    Raises: BadInput for a method that the recipe does not have or that asks nobody.
    """
    whole = prepare(store=store, **{**arguments, "until": None})
    wanted = _step(whole, method)
    run_plan = prepare(store=store, **{**arguments, "until": wanted.name})
    with open_run(run_plan, _say) as handle:
        for step in run_plan.steps:
            if step.name == wanted.name:
                continue
            version = handle.fingerprints[step.name].version or ""
            made = open_artifact(handle.store, step.name, version).manifest() is not None
            if step.stage.asks is not None and not made:
                raise BadInput(
                    f"{method!r} needs what {step.name} says of the whole corpus, which is not "
                    f"there yet: look at it first (tercet try … --method {EXTRACTION}), then make "
                    "it (tercet run … --until extract_parse)."
                )
            with reporter(step.name, sys.stderr.isatty()) as progress:
                result = run_step(handle, step, progress)
            if result.state != "reused":
                _say(step_line(result))
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
        print(f"{len(kept)} answers, {tokens:,} tokens: they are kept, and not asked for again.")
    if len(kept) < len(answers):
        print(f"{len(answers) - len(kept)} failed: these will be asked again.")


def _step(run_plan: RunPlan, method: str) -> Step:
    names = {
        step.name.partition(".")[2] or EXTRACTION: step
        for step in run_plan.steps
        if step.stage.asks is not None
    }
    if method not in names:
        known = f"it has: {', '.join(names)}" if names else "it has none"
        raise BadInput(f"The recipe has no method {method!r} that asks a language model ({known}).")
    return names[method]


def _requests(order: PartOrder) -> Iterator[Request]:
    """Those of all parts, of a few parts in turns; a greater number of them begins the same."""
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
