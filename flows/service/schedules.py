"""Schedules as the command line takes them: five fields of cron with a time zone, or seconds."""

import asyncio
import re
import shlex
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import tzlocal

from tercet.flows.service.server import answering
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

CRON_FIELDS = 5
CRON_FIELD = re.compile(r"[0-9A-Za-z*/,#?-]+")


def check(cron: str | None, interval: int | None = None) -> None:
    """Raises BadInput for what is no schedule."""
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


def zone_of(asked: str | None) -> str:
    """The time zone of a schedule, by name; by default this machine's. Raises: BadInput."""
    if asked is not None:
        if not _is_zone(asked):
            raise BadInput(
                f"--timezone {asked!r} is no time zone: give one by its name, such as "
                "Europe/Berlin."
            )
        return asked
    try:
        zone = str(tzlocal.reload_localzone())
    except (KeyError, ValueError, OSError):
        # TZ holds a POSIX rule, or nothing that is known.
        zone = ""
    if not _is_zone(zone):
        raise BadInput(
            "The time zone of this machine has no name that a schedule could use: give one with "
            "--timezone, such as --timezone Europe/Berlin."
        )
    return zone


def _is_zone(name: str) -> bool:
    # Some systems' databases list the machine's own zone under these.
    if name in ("localtime", "posixrules"):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def next_time(cron: str, zone: str) -> datetime:
    """When the schedule fires next, as Prefect's server counts it."""
    from prefect.server.schemas.schedules import CronSchedule

    now = datetime.now(ZoneInfo(zone))
    schedule = CronSchedule(cron=cron, timezone=zone)
    found: list[datetime] = asyncio.run(schedule.get_dates(1, start=now))
    return found[0].astimezone(ZoneInfo(zone))


def describe(cron: str, zone: str) -> str:
    """The schedule in words, with its next time."""
    return f"cron {cron!r} in {zone}, next at {next_time(cron, zone):%Y-%m-%d %H:%M %Z}"


def apply(deployment: Any, is_shared: bool) -> UUID:
    """Makes the deployment, or changes the one of its name, with its schedules. Returns its id.

    is_shared: whether the server is not the store's own, which moves with it.

    Raises: BadInput if the server cannot be had, or the deployment is another store's.
    """
    from prefect.exceptions import ObjectNotFound

    with answering() as client:
        with suppress(ObjectNotFound):
            standing = client.read_deployment_by_name(deployment.full_name)
            store = standing.parameters.get("store")
            if is_shared and store not in (None, deployment.parameters["store"]):
                raise BadInput(
                    f"The deployment {deployment.full_name} runs on the store {store}: give this "
                    "recipe a name of its own, or delete that one first, prefect deployment "
                    f"delete {shlex.quote(deployment.full_name)}."
                )
        made = UUID(str(deployment.apply()))
        _refuse_unknown(client, made)
        if not deployment.schedules:
            # Prefect would leave those that it had.
            for schedule in client.read_deployment_schedules(made):
                client.delete_deployment_schedule(made, schedule.id)
    return made


def _refuse_unknown(client: "SyncPrefectClient", deployment: UUID) -> None:
    """Lets the server refuse parameters that the flow does not have: their run would crash."""
    from prefect.client.schemas.actions import DeploymentUpdate

    schema = client.read_deployment(deployment).parameter_openapi_schema or {}
    update = DeploymentUpdate(parameter_openapi_schema={**schema, "additionalProperties": False})
    client.update_deployment(deployment, update)


def make(cron: str | None, zone: str | None, interval: int | None = None) -> Any:
    """The schedule in Prefect's form, by cron or else by interval. Raises: BadInput."""
    from prefect.schedules import Cron, Interval

    if cron and zone:
        try:
            # That of a day that never comes, such as 31 February, does not fire at all.
            next_time(cron, zone)
        except ValueError as error:
            raise _bad_cron(cron) from error
        return Cron(cron, timezone=zone)
    assert interval is not None
    return Interval(timedelta(seconds=interval))
