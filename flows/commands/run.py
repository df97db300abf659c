"""`tercet run`: runs a recipe, with Prefect or as plain functions, and prints a summary."""

import os
import shlex
from contextlib import suppress
from pathlib import Path

from tercet.flows.formatting import printable
from tercet.flows.recipe import text as recipe_text
from tercet.flows.results import summary
from tercet.flows.results.verdict import judge, settle
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.failures import StageFailed, describe_failure
from tercet.flows.terminal.progress import say, show_step
from tercet.models.errors import Unusable
from tercet.storage.store import FullDisk, StoreError, open_store
from tercet.tasks.stage import BadInput, RequirementNotMet


def run_recipe(arguments: RunArguments, use_server: bool, write: str | None = None) -> int:
    """Runs the recipe and prints the summary. Returns the exit code.

    write: a file for the recipe as it is run, with everything that the command line changed: a new
        one, or that of the same command typed before.

    Raises: BadInput, StoreError, StageFailed, RequirementNotMet; KeyboardInterrupt is handled here.
    """
    _check_alone()
    command = resume_command(arguments, use_server)
    # A shutdown of the machine or a scheduler's time limit interrupts like Ctrl-C.
    interrupts.listen()
    run_plan = prepare(arguments)
    if write is not None:
        _keep(run_plan, Path(write).expanduser())
    if run_plan.chosen is not None:
        say(run_plan.chosen)
    if write is not None:
        say(f"The recipe is in {write}.")

    def print_summary(run_id: str) -> None:
        # Notes follow the run, since a fault of the input is reported in one sentence alone.
        for line in run_plan.notes:
            say(line)
        with suppress(BrokenPipeError):
            print(printable(summary.summarise_run(run_plan, run_id, command)))

    try:
        run_id = _with_prefect(run_plan) if use_server else run_plainly(run_plan)
    except KeyboardInterrupt:
        say(f"\nInterrupted; finished work is kept. Resume with:\n  {command}")
        return 130
    except FullDisk as error:
        raise FullDisk("no_space", f"{describe_failure(error)} Then: {command}") from error
    except (BadInput, StoreError, Unusable):
        raise
    except RequirementNotMet as error:
        print_summary(error.run_id)
        raise
    except Exception as error:
        raise StageFailed("lost", f"{describe_failure(error)} Resume with: {command}") from error
    print_summary(run_id)
    return 0


def _keep(run_plan: RunPlan, path: Path) -> None:
    """Writes the recipe, if the store can be used and the file is not there from the same run.

    Raises: BadInput for a file that holds something else; StoreError.
    """
    heading = run_plan.chosen or f"{run_plan.recipe.name}, as it was run."
    text = recipe_text.recipe_text(run_plan.content, heading)
    recipe_text.check_output(path, text)
    open_store(run_plan.store)
    if not path.exists():
        recipe_text.write(path, text)


def resume_command(arguments: RunArguments, use_server: bool = True) -> str:
    """The command line that resumes the run."""
    words = ["tercet", "run", *arguments.words(), *([] if use_server else ["--no-server"])]
    return shlex.join(words)


def _check_alone() -> None:
    """Raises BadInput for one of several processes, which would wait for each other's artifacts."""
    started = os.environ.get("WORLD_SIZE") or "1"
    if started != "1":
        raise BadInput(
            "bad_value",
            f"WORLD_SIZE is {started}, but a single process trains, on one device: start tercet "
            "without accelerate launch or torchrun, or unset WORLD_SIZE.",
        )


def run_plainly(run_plan: RunPlan) -> str:
    """Runs the steps in this process, with a line about each. Returns the run's id."""
    with open_run(run_plan, say) as handle:
        run_steps(handle, [show_step])
        judge(handle)
    settle(handle)
    return handle.run_id


def _with_prefect(run_plan: RunPlan) -> str:
    from tercet.flows.service.server import answering, owned, prefect_server

    work = open_store(run_plan.store).work
    with prefect_server(work, say):
        if not owned(work):
            # A server that the store does not own may be away, or not be Prefect's.
            with answering():
                pass
        from tercet.flows.service.pipeline_flow import run

        return run(run_plan)
