"""Scheduled recipes: `tercet serve` runs them here; for work pools there is `tercet deploy`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import schedules, server
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.lines import say
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.stage import BadInput


def serve_recipe(
    arguments: RunArguments,
    cron: str | None = None,
    interval: int | None = None,
    timezone: str | None = None,
) -> None:
    """Serves the recipe as a Prefect deployment until it is stopped. One run at a time.

    Without a schedule it runs on request, from Prefect's UI or API. A failed run can be retried
    there: it resumes from the store.

    Args:
        arguments: The arguments of each run.
        cron: A schedule such as "0 3 * * *".
        interval: Seconds between two runs, instead of `cron`.
        timezone: That of `cron`, by name; this machine's if None.

    Raises: BadInput if the schedule, the recipe or its arguments are wrong, or the recipe is served
        already; ServerError if the store's Prefect server does not start, or dies again and again.
    """
    from tercet.flows.running.run_plan import prepare
    from tercet.storage import locks
    from tercet.storage.store import open_store

    schedules.check(cron, interval)
    zone = None if cron is None else schedules.zone_of(timezone)
    plan = prepare(arguments)
    interrupts.listen()
    store, name = open_store(plan.store), plan.recipe.name

    def refuse(holder: str) -> None:
        raise BadInput(f"The recipe {name} is served already ({holder}): stop that first.")

    # The first of two to end would pause the schedule of both.
    alone = locks.hold(store, f"serve-{name}", refuse, "tercet serve")
    with alone, server.prefect_server(store.work, say):
        from prefect.deployments.runner import EntrypointType

        from tercet.flows.service.pipeline_flow import pipeline
        from tercet.flows.service.serving import run_scheduled

        deployment: Any = pipeline.to_deployment(
            name=name,
            description=plan.recipe.description or None,
            schedules=[schedules.make(cron, zone, interval)] if cron or interval else None,
            parameters=portable(replace(arguments, store=store.location)),
            entrypoint_type=EntrypointType.MODULE_PATH,
            # The last `serve` paused it when it ended.
            paused=False,
        )
        when = f"every {interval} s" if interval else "on request"
        if cron and zone:
            when = schedules.describe(cron, zone)
        identity = schedules.apply(deployment, is_shared=not server.owned(store.work))
        say(f"Serving {deployment.full_name} ({when}); stop with Ctrl-C.")
        run_scheduled(store, identity)


def portable(arguments: RunArguments) -> dict[str, Any]:
    """The flow's parameters, with absolute file paths: its process may run elsewhere."""
    full = {name: value for name, value in arguments.parameters().items() if value is not None}
    # As in `recipe_file.find`: files get their full path, names of shipped recipes stay.
    if Path(arguments.recipe).is_file():
        full["recipe"] = str(Path(arguments.recipe).resolve())
    if arguments.corpus is not None:
        full["corpus"] = reader_of(arguments.corpus).portable(arguments.corpus)
    place = arguments.store
    return {**full, "store": place if "://" in place else str(Path(place).expanduser().resolve())}
