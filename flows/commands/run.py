"""`tercet run`: runs a recipe, with Prefect or as plain functions, and sums it up."""

import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tercet.flows.results import summary
from tercet.flows.running.runner import (
    RunHandle,
    RunPlan,
    StepResult,
    check_inputs,
    open_run,
    prepare,
    run_step,
)
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.failures import StageFailed, sentence
from tercet.flows.terminal.progress import reporter
from tercet.models.llm.errors import Unusable
from tercet.storage.store import FullDisk, StoreError, open_store
from tercet.tasks.stage import BadInput


def run_recipe(arguments: Mapping[str, Any], store: str, use_server: bool) -> int:
    """Runs the recipe to its end. Returns the exit code; prints the summary.

    Raises: BadInput, StoreError, StageFailed; KeyboardInterrupt is answered here.
    """
    command = resume_command(arguments, store, use_server)
    # A machine that shuts down, or a scheduler's time limit, interrupts as Ctrl-C does.
    interrupts.listen()
    run_plan = prepare(store=store, **arguments)
    try:
        run_id = _with_prefect(run_plan) if use_server else _plainly(run_plan)
    except KeyboardInterrupt:
        _say(f"\nInterrupted; what is done is kept. Go on with:\n  {command}")
        return 130
    except FullDisk as error:
        raise FullDisk(f"{sentence(error)} Then: {command}") from error
    except (BadInput, StoreError, Unusable):
        raise
    except Exception as error:
        raise StageFailed(f"{sentence(error)} Resume with: {command}") from error
    with suppress(BrokenPipeError):
        print(summary.of_run(run_plan, run_id, command))
    return 0


def resume_command(arguments: Mapping[str, Any], store: str, use_server: bool = True) -> str:
    """The command line that starts the same run again."""
    words = ["tercet", "run", str(arguments["recipe"])]
    for key in ("corpus", "until", "limit", "seed"):
        if arguments.get(key) is not None:
            words += [f"--{key}", str(arguments[key])]
    for override in arguments.get("overrides") or []:
        words += ["--set", override]
    if store != "./tercet-store":
        words += ["--store", store]
    if not use_server:
        words.append("--no-server")
    return shlex.join(words)


def step_line(result: StepResult) -> str:
    """One line about a step that is done."""
    rows = ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in result.tables.items() if count
    )
    time = "" if result.state == "reused" else f" in {result.seconds:.1f} s"
    return f"{result.step:<32} {result.state:<8}{time:<12} {rows}"


def _plainly(run_plan: RunPlan) -> str:
    with open_run(run_plan, _say) as handle:
        for step in run_plan.steps:
            _say(step_line(_one_step(handle, step)))
        return handle.run_id


def _one_step(handle: RunHandle, step: Any) -> StepResult:
    with reporter(step.name, sys.stderr.isatty()) as progress:
        return run_step(handle, step, progress)


def _with_prefect(run_plan: RunPlan) -> str:
    from tercet.flows.service.server import prefect_server

    # The run looks itself, but only once the server is up, which takes longer than to look twice.
    check_inputs(run_plan.steps)
    root = open_store(run_plan.store).root
    with prefect_server(root, _say):
        from tercet.flows.service.pipeline_flow import run

        return run(run_plan.arguments, run_plan.store)


def _say(text: str) -> None:
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
