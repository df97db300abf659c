"""Recipes on a schedule: `tercet serve` runs them here; for a work pool see prefect.yaml."""

import glob
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from tercet.flows.service import server
from tercet.tasks.corpus.sources.corpora import HUB_PREFIX, PYDOCS
from tercet.tasks.stage import BadInput

CRON_FIELDS = 5
CRON_FIELD = re.compile(r"[0-9A-Za-z*/,#?-]+")


def serve_recipe(
    arguments: Mapping[str, Any], store: str, cron: str | None = None, interval: int | None = None
) -> None:
    """Serves the recipe as a Prefect deployment until it is stopped. One run at a time.

    Without a schedule it runs when somebody asks for it, in Prefect's pages or by its API. A run
    that failed can be retried there: it goes on from what the store has.

    Args:
        arguments: Those of `runner.prepare` but the store.
        store: The store's location.
        cron: A schedule such as "0 3 * * *", in the time zone of this machine.
        interval: Seconds between two runs, in place of `cron`.

    Raises: BadInput when the schedule, the recipe or its arguments are wrong.
    """
    from tercet.flows.running.runner import prepare
    from tercet.storage.store import open_store

    _check_schedule(cron, interval)
    plan = prepare(store=store, **arguments)
    root = open_store(store).root
    with server.prefect_server(root, _say):
        from prefect import serve
        from prefect.deployments.runner import EntrypointType

        from tercet.flows.service.pipeline_flow import pipeline

        deployment: Any = pipeline.to_deployment(
            name=plan.recipe.name,
            description=plan.recipe.description or None,
            schedules=[_schedule(cron, interval)] if cron or interval else None,
            parameters=portable(arguments, str(root)),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        when = f"cron {cron!r}" if cron else f"every {interval} s" if interval else "when asked"
        _say(f"Serving {deployment.full_name} ({when}); Ctrl-C ends it.")
        serve(deployment, limit=1, print_starting_message=False)


def portable(arguments: Mapping[str, Any], store: str) -> dict[str, Any]:
    """The flow's parameters, with files by their full path: its process may run elsewhere."""
    full = {name: value for name, value in arguments.items() if value is not None}
    # The same tests as those of `recipe_file.find` and of the corpus's readers: what they take for
    # a file gets its full path, the name of a shipped recipe stays what it is.
    if "recipe" in full and Path(full["recipe"]).is_file():
        full["recipe"] = str(Path(full["recipe"]).resolve())
    if "corpus" in full:
        full["corpus"] = _portable_source(full["corpus"])
    return {**full, "store": str(Path(store).resolve())}


def _portable_source(source: str) -> str:
    """A corpus's source with its full path; of a glob, that of the folder where it begins."""
    if source == PYDOCS or source.startswith(HUB_PREFIX):
        return source
    if Path(source).exists():
        return str(Path(source).resolve())
    if not glob.has_magic(source):
        return source
    # Wild cards in the name of this folder are none.
    return source if Path(source).is_absolute() else glob.escape(f"{Path.cwd()}/") + source


def _check_schedule(cron: str | None, interval: int | None) -> None:
    if cron is not None and interval is not None:
        raise BadInput("--cron and --interval exclude each other: give one of them.")
    if interval is not None and interval < 1:
        raise BadInput(f"--interval {interval} is not a number of seconds: give 1 or more.")
    if cron is not None and not (
        len(cron.split()) == CRON_FIELDS and all(map(CRON_FIELD.fullmatch, cron.split()))
    ):
        raise _bad_cron(cron)


def _bad_cron(cron: str) -> BadInput:
    return BadInput(
        f"--cron {cron!r} is no schedule: give minute, hour, day, month and weekday, "
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
    """The name of this machine's time zone; None (UTC) where it has none."""
    from zoneinfo import ZoneInfo

    linked = "/etc/localtime"
    with suppress(OSError):
        linked = os.readlink(linked)  # noqa: PTH115 - the link's text, not what it leads to
    name = os.environ.get("TZ") or linked.rpartition("zoneinfo/")[2]
    with suppress(Exception):
        return ZoneInfo(name).key
    return None


def _say(text: str) -> None:
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
