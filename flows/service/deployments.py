"""Scheduled recipes: `tercet serve` runs them here; for a work pool see prefect.yaml."""

import os
import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import server
from tercet.flows.terminal.lines import say
from tercet.tasks.corpus.sources.reader import reader_of
from tercet.tasks.stage import BadInput

CRON_FIELDS = 5
CRON_FIELD = re.compile(r"[0-9A-Za-z*/,#?-]+")


def serve_recipe(
    arguments: RunArguments, cron: str | None = None, interval: int | None = None
) -> None:
    """Serves the recipe as a Prefect deployment until it is stopped. One run at a time.

    Without a schedule it runs on request, from Prefect's UI or API. A failed run can be retried
    there: it resumes from the store.

    Args:
        arguments: The arguments of each run.
        cron: A schedule such as "0 3 * * *", in this machine's time zone.
        interval: Seconds between two runs, instead of `cron`.

    Raises: BadInput if the schedule, the recipe or its arguments are wrong.
    """
    from tercet.flows.running.run_plan import prepare
    from tercet.storage.store import open_store

    _check_schedule(cron, interval)
    plan = prepare(arguments)
    root = open_store(plan.store).root
    with server.prefect_server(root, say):
        from prefect import serve
        from prefect.deployments.runner import EntrypointType

        from tercet.flows.service.pipeline_flow import pipeline

        deployment: Any = pipeline.to_deployment(
            name=plan.recipe.name,
            description=plan.recipe.description or None,
            schedules=[_schedule(cron, interval)] if cron or interval else None,
            parameters=portable(replace(arguments, store=str(root))),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        when = f"cron {cron!r}" if cron else f"every {interval} s" if interval else "on request"
        say(f"Serving {deployment.full_name} ({when}); stop with Ctrl-C.")
        serve(deployment, limit=1, print_starting_message=False)


def portable(arguments: RunArguments) -> dict[str, Any]:
    """The flow's parameters, with absolute file paths: its process may run elsewhere."""
    full = {name: value for name, value in arguments.parameters().items() if value is not None}
    # As in `recipe_file.find`: files get their full path, names of shipped recipes stay.
    if Path(arguments.recipe).is_file():
        full["recipe"] = str(Path(arguments.recipe).resolve())
    if arguments.corpus is not None:
        full["corpus"] = reader_of(arguments.corpus).portable(arguments.corpus)
    return {**full, "store": str(Path(arguments.store).resolve())}


def _check_schedule(cron: str | None, interval: int | None) -> None:
    if cron is not None and interval is not None:
        raise BadInput("--cron and --interval exclude each other: give only one.")
    if interval is not None and interval < 1:
        raise BadInput(f"--interval {interval} is not a number of seconds: give 1 or more.")
    if cron is not None and not (
        len(cron.split()) == CRON_FIELDS and all(map(CRON_FIELD.fullmatch, cron.split()))
    ):
        raise _bad_cron(cron)


def _bad_cron(cron: str) -> BadInput:
    return BadInput(
        f"--cron {cron!r} is not a schedule: give minute, hour, day, month and weekday, "
        'such as "0 3 * * *".'
    )


def _schedule(cron: str | None, interval: int | None) -> Any:
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.schedules import Cron, Interval

    if cron:
        try:
            CronSchedule(cron=cron)
        except ValueError as error:
            raise _bad_cron(cron) from error
        return Cron(cron, timezone=_time_zone())
    assert interval is not None
    return Interval(timedelta(seconds=interval))


def _time_zone() -> str | None:
    """The name of this machine's time zone; None (UTC) if it has none."""
    from zoneinfo import ZoneInfo

    linked = "/etc/localtime"
    with suppress(OSError):
        linked = os.readlink(linked)  # noqa: PTH115 - the link's text, not its target
    name = os.environ.get("TZ") or linked.rpartition("zoneinfo/")[2]
    with suppress(Exception):
        return ZoneInfo(name).key
    return None
