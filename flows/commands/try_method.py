"""`tercet try`: shows a few of a method's rows before a whole run is paid for."""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tercet.flows.formatting import printable
from tercet.flows.pipeline.step import Step, until
from tercet.flows.planning import requests_of, spread, work_on
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.one_step import artifact_of, order_of
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.flows.running.runner import Make, StepResult, open_run, run_steps
from tercet.flows.terminal.progress import say, show_step
from tercet.models.errors import suggest
from tercet.models.llm.messages import Answer, Request
from tercet.tasks.knowledge.extract_generate import METHOD as EXTRACTION
from tercet.tasks.stage import BadInput, silent
from tercet.tasks.synthesis.synthesise import generated

# Prompts and rows are taken from this many parts in turn.
_PARTS = 4


def try_method(arguments: RunArguments, method: str, count: int) -> None:
    """Makes the method's inputs, then shows `count` of its rows.

    A rule's rows are anchors from several parts, with the texts that it makes of them; nothing is
    kept. A prompted method's prompts are sent and printed with their answers. The store's pool
    keeps the answers, so that a later run does not pay for them again; it retries failed rows.

    Raises: BadInput for a method that the recipe lacks or that applies to no row.
    """
    whole = prepare(arguments)
    # All steps are searched: extraction can be tried even if no step of a run reads it.
    chosen = _step(whole.every, method)
    run_plan = RunPlan(
        whole.recipe,
        until(whole.every, chosen.name),
        replace(arguments, until=chosen.name),
        tried=method,
    )
    with open_run(run_plan, say) as handle:

        def ask_nobody(step: Step, make: Make) -> StepResult:
            if step.stage.asks is not None and artifact_of(handle, step.name).manifest() is None:
                raise BadInput(
                    "not_reached",
                    f"{method!r} needs the results of {step.name} for the whole corpus, which do "
                    f"not exist yet: try it first (tercet try … --method {EXTRACTION}), then run "
                    "it (tercet run … --until extract_parse).",
                )
            return make(silent)

        inputs = [step for step in run_plan.steps if step.name != chosen.name]
        run_steps(handle, [partial(show_step, reused=False), ask_nobody], inputs)
        order = order_of(handle, chosen)
        if chosen.stage.asks is None:
            _show_rows(order, method, count)
        else:
            _show_answers(order, method, count)


def _show_rows(order: PartOrder, method: str, count: int) -> None:
    """Prints rows of a rule, evenly spread over its texts for the first sentences of parts."""
    rows: list[dict[str, Any]] = []
    anchors = 0
    for source in spread(list(order.driving))[:_PARTS]:
        with tempfile.TemporaryDirectory() as scratch:
            work = replace(work_on(order, source), scratch=Path(scratch))
            generations = next(generated(work), None)
            if generations is None:
                continue
            each = str(order.step.stage.each)
            columns = [f"{each.removesuffix('s')}_id", "text"]
            read_columns = (
                column.to_pylist() for column in work.inputs[each].table(each, columns).columns
            )
            texts = dict(zip(*read_columns, strict=True))
            rows += [
                {**row, "anchor": texts[row["sentence_id"]]} for row in generations.to_pylist()
            ]
            anchors += len(generations["sentence_id"].unique())
    if not rows:
        raise BadInput(
            "no_rows", f"{method!r} applies to no anchor of this corpus: there is nothing to show."
        )
    shown = [
        rows[place * len(rows) // min(count, len(rows))] for place in range(min(count, len(rows)))
    ]
    config: Any = order.step.config
    purpose = config.described.purpose
    for number, row in enumerate(shown, start=1):
        if config.described.as_anchor:
            row |= {"anchor": row["raw"], "raw": row["anchor"]}
        print(printable(_shown_row(number, len(shown), method, purpose, row)))
    print(f"{len(rows):,} rows of {anchors:,} anchors were made for this, and not kept.")


def _shown_row(number: int, total: int, method: str, purpose: str, row: dict[str, Any]) -> str:
    lines = [f"── {method} {number} of {total}", f"anchor    {row['anchor']}"]
    lines.append(f"{purpose:<9} {row['raw']}")
    detail = row["detail"]
    if detail["old"] is not None:
        pool = f" ({detail['pool']})" if detail["pool"] else ""
        change = f"{detail['old'] or '(nothing)'} → {detail['new'] or '(nothing)'}"
        lines.append(f"changed   {change}{pool}")
    return "\n".join(lines) + "\n"


def _show_answers(order: PartOrder, method: str, count: int) -> None:
    """Sends prompts of a prompted method, or of extraction, and prints them with the answers."""
    assert order.resources.ask is not None
    requests = list(islice(_requests(order), count))
    if not requests:
        raise BadInput(
            "no_rows", f"{method!r} applies to no row of this corpus: there is nothing to ask."
        )
    answers = sorted(order.resources.ask(method, requests), key=lambda answer: answer.place)
    # A method with several kinds of query has examples of each.
    shots = list(dict.fromkeys(shot for request in requests for shot in request.shots))
    of_kind = " of its kind" if len({request.shots for request in requests}) > 1 else ""
    for number, shot in enumerate(shots, start=1):
        head = f"── {method}, shot {number} of {len(shots)}, before each prompt{of_kind}: asked"
        print(printable(f"{head}\n{shot.prompt}\n── answered\n{shot.answer}\n"))
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True), start=1):
        print(printable(_shown(number, len(requests), method, request, answer)))
    answered = [answer for answer in answers if answer.error is None]
    if answered:
        tokens = sum(answer.prompt_tokens + answer.n_tokens for answer in answered)
        print(f"{len(answered)} answers, {tokens:,} tokens: kept, and not asked for again.")
    if len(answered) < len(answers):
        print(f"{len(answers) - len(answered)} failed: a run asks again.")


def _step(steps: Sequence[Step], method: str) -> Step:
    names = {step.method: step for step in steps if step.stage.asks}
    names |= {
        step.name.partition(".")[2]: step for step in steps if step.stage.name == "synthesise"
    }
    if method not in names:
        methods_known = f"it has: {', '.join(names)}" if names else "it has none"
        near = suggest(method, names)
        raise BadInput(
            "unknown_name", f"The recipe has no method {method!r} ({methods_known}){near}."
        )
    return names[method]


def _requests(order: PartOrder) -> Iterator[Request]:
    """Requests of several parts in turn, in one order however many are taken."""
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
    details = f"{answer.finish_reason}, {answer.n_tokens} tokens, {answer.seconds:.1f} s"
    text = answer.raw if answer.error is None else f"({answer.error})"
    return (
        f"── {method} {number} of {total}: asked\n{request.prompt}\n"
        f"── answered ({details})\n{text}\n"
    )
