"""`tercet serve` and `tercet deploy`: recipes on a schedule, here or by the workers of pools.

Schedules are five fields of cron with a time zone, or seconds.
"""

import asyncio
import os
import re
import shlex
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import tzlocal

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import server
from tercet.flows.service.server import answering
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.progress import say
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


CRON_FIELDS = 5
CRON_FIELD = re.compile(r"[0-9A-Za-z*/,#?-]+")


def check_schedule(cron: str | None, interval: int | None = None) -> None:
    """Raises BadInput for an invalid schedule."""
    if cron is not None and interval is not None:
        raise BadInput("conflict", "--cron and --interval exclude each other: give only one.")
    if interval is not None and interval < 1:
        raise BadInput(
            "bad_value", f"--interval {interval} is not a number of seconds: give 1 or more."
        )
    if cron is not None and not (
        len(cron.split()) == CRON_FIELDS and all(map(CRON_FIELD.fullmatch, cron.split()))
    ):
        raise _bad_cron(cron)


def _bad_cron(cron: str) -> BadInput:
    return BadInput(
        "bad_value",
        f"--cron {cron!r} is not a schedule: give minute, hour, day, month and weekday, "
        'such as "0 3 * * *".',
    )


def zone_of(name: str | None) -> str:
    """The time zone of a schedule, by name; by default this machine's. Raises: BadInput."""
    if name is not None:
        if not _is_zone(name):
            raise BadInput(
                "unknown_name",
                f"--timezone {name!r} is no time zone: give one by its name, such as "
                "Europe/Berlin.",
            )
        return name
    try:
        zone = str(tzlocal.reload_localzone())
    except (KeyError, ValueError, OSError):
        # TZ holds a POSIX rule, or an unknown zone.
        zone = ""
    if not _is_zone(zone):
        raise BadInput(
            "missing_key",
            "The time zone of this machine has no name that a schedule could use: give one with "
            "--timezone, such as --timezone Europe/Berlin.",
        )
    return zone


def _is_zone(name: str) -> bool:
    # Some systems' databases list the machine's zone under these names.
    if name in ("localtime", "posixrules"):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def next_time(cron: str, zone: str) -> datetime:
    """The time when the schedule fires next, as Prefect's server computes it."""
    from prefect.server.schemas.schedules import CronSchedule

    now = datetime.now(ZoneInfo(zone))
    schedule = CronSchedule(cron=cron, timezone=zone)
    dates: list[datetime] = asyncio.run(schedule.get_dates(1, start=now))
    return dates[0].astimezone(ZoneInfo(zone))


def in_words(cron: str, zone: str) -> str:
    """The schedule in words, with its next time."""
    return f"cron {cron!r} in {zone}, next at {next_time(cron, zone):%Y-%m-%d %H:%M %Z}"


def apply_deployment(deployment: Any, is_shared: bool) -> UUID:
    """Makes the deployment with its schedules, or updates the deployment of this name. Returns its
    id.

    is_shared: whether the server also serves other stores; the store's own server moves with it.

    Raises: BadInput if the server cannot be reached, or the deployment belongs to another store.
    """
    from prefect.exceptions import ObjectNotFound

    with answering() as client:
        with suppress(ObjectNotFound):
            standing = client.read_deployment_by_name(deployment.full_name)
            store = standing.parameters.get("store")
            if is_shared and store not in (None, deployment.parameters["store"]):
                raise BadInput(
                    "exists",
                    f"The deployment {deployment.full_name} runs on the store {store}: give this "
                    "recipe a name of its own, or delete that one first, prefect deployment "
                    f"delete {shlex.quote(deployment.full_name)}.",
                )
        deployment_id = UUID(str(deployment.apply()))
        _refuse_unknown(client, deployment_id)
        if not deployment.schedules:
            # Without new schedules Prefect would keep the deployment's old ones.
            for schedule in client.read_deployment_schedules(deployment_id):
                client.delete_deployment_schedule(deployment_id, schedule.id)
    return deployment_id


def _refuse_unknown(client: "SyncPrefectClient", deployment: UUID) -> None:
    """Lets the server refuse parameters that the flow does not have: their run would crash."""
    from prefect.client.schemas.actions import DeploymentUpdate

    schema = client.read_deployment(deployment).parameter_openapi_schema or {}
    update = DeploymentUpdate(parameter_openapi_schema={**schema, "additionalProperties": False})
    client.update_deployment(deployment, update)


def schedule_of(cron: str | None, zone: str | None, interval: int | None = None) -> Any:
    """The schedule in Prefect's form, by cron or else by interval. Raises: BadInput."""
    from prefect.schedules import Cron, Interval

    if cron and zone:
        try:
            # A schedule for a day that never comes, such as 31 February, would never fire.
            next_time(cron, zone)
        except ValueError as error:
            raise _bad_cron(cron) from error
        return Cron(cron, timezone=zone)
    assert interval is not None
    return Interval(timedelta(seconds=interval))


# The last step of a recipe's first half, which asks rules and language models but trains nothing.
LAST_OF_SYNTHESIS = "parse"
# Prefect accepts other names of pools too, but then cannot make an address of them.
_POOL = re.compile(r"(?!prefect)\w[\w .-]*", re.IGNORECASE)


def deploy_recipe(
    arguments: RunArguments,
    pool: str,
    gpu_pool: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
    notify: str | None = None,
) -> None:
    """Makes the recipe's deployments and automations on the server what these arguments say.

    NAME-synthesise makes the candidates; NAME-train, which follows it with the same parameters,
    runs the whole recipe and so reuses them. A recipe that synthesises nothing has the second
    alone. Typed again, the command changes what differs and makes nothing twice.

    Args:
        arguments: Those of each run, without `until`.
        pool: The work pool of `synthesise`.
        gpu_pool: The work pool of `train`, `pool` if None. Pools that do not exist are made.
        cron: A schedule of the first deployment; none if None.
        timezone: That of `cron`, by name; this machine's if None.
        notify: A notification block as TYPE/NAME, told of runs that failed for good.

    Raises: BadInput for a bad schedule, pool, recipe, block or server, or if the recipe's
    deployments are of another store.
    """
    from tercet.flows.running.run_plan import prepare
    from tercet.storage.store import work_of

    check_schedule(cron)
    zone = None if cron is None else zone_of(timezone)
    gpu_pool = pool if gpu_pool is None else gpu_pool
    for where in (pool, gpu_pool):
        if not _POOL.fullmatch(where):
            raise BadInput(
                "bad_value",
                f"{where!r} is no name of a work pool: use letters, digits, spaces, dots and "
                "dashes, and leave those that begin with prefect to Prefect.",
            )
    plan = prepare(arguments)
    if not os.environ.get("PREFECT_API_URL"):
        raise BadInput(
            "missing_key",
            "PREFECT_API_URL is not set: set it to your Prefect server's API, or use "
            "`tercet serve`, which needs none.",
        )
    name = plan.recipe.name
    with server.prefect_server(work_of(arguments.store), say), answering() as client:
        from prefect.exceptions import ObjectNotFound

        from tercet.flows.service.automations import apply_automations, build_automations

        block = None if notify is None else _block(client, notify)
        common = portable(arguments)
        common.pop("retry_failed")
        synthesises = any(step.name == LAST_OF_SYNTHESIS for step in plan.steps)
        # The schedule starts the last deployment of this list, when the others exist already.
        halves = [("train", gpu_pool, common)]
        if synthesises:
            halves.append(("synthesise", pool, {**common, "until": LAST_OF_SYNTHESIS}))
        schedule = [schedule_of(cron, zone)] if cron else []
        deployments: dict[str, UUID] = {}
        for half, where, parameters in halves:
            scheduled = schedule if half == halves[-1][0] else []
            description = f"The half `{half}` of the recipe {name}. {plan.recipe.description or ''}"
            deployments[half] = _deployment(
                client, f"{name}-{half}", where, parameters, scheduled, description.strip()
            )
            when = "on request"
            if half == "train" and synthesises:
                when = f"when {name}-synthesise has completed"
            elif cron and zone:
                when = in_words(cron, zone)
            say(f"tercet/{name}-{half} in the pool {where!r}, {when}")
        if not synthesises:
            # An earlier deployment of this recipe may have synthesised.
            with suppress(ObjectNotFound):
                former = client.read_deployment_by_name(f"tercet/{name}-synthesise")
                client.delete_deployment(former.id)
        automations = build_automations(
            name, deployments["train"], deployments.get("synthesise"), block
        )
        apply_automations(client, name, automations)
        say(f"{len(automations)} automations watch over them.")
        for where in dict.fromkeys(where for _, where, _ in halves):
            say(f"Start a worker: prefect worker start --pool {shlex.quote(where)} --limit 1")


def _block(client: "SyncPrefectClient", name: str) -> UUID:
    """The id of a notification block. Raises: BadInput."""
    from prefect.exceptions import ObjectNotFound

    kind, _, block = name.partition("/")
    try:
        document = client.read_block_document_by_name(block, kind)
    except ObjectNotFound:
        document = None
    schema = document.block_schema if document is not None else None
    if document is None or schema is None or "notify" not in schema.capabilities:
        raise BadInput(
            "unknown_name",
            f"--notify {name!r} is no notification block of this server: make one under Blocks in "
            "Prefect's pages, and give it as TYPE/NAME, such as slack-webhook/alerts.",
        )
    return UUID(str(document.id))


def _deployment(
    client: "SyncPrefectClient",
    name: str,
    pool: str,
    parameters: dict[str, Any],
    scheduled: list[Any],
    description: str,
) -> UUID:
    """Makes the deployment, or updates the deployment of that name. Returns its id."""
    from prefect.deployments.runner import EntrypointType
    from prefect.runner.storage import LocalStorage

    from tercet.flows.service.automations import HEARTBEAT
    from tercet.flows.service.pipeline_flow import pipeline

    _make_pool(client, pool)
    deployment = pipeline.to_deployment(
        name=name,
        description=description,
        schedules=scheduled,
        parameters=parameters,
        work_pool_name=pool,
        # Set per job, not in the worker's settings, so that a worker started by hand sends
        # heartbeats too.
        job_variables={"env": HEARTBEAT},
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    # A recipe's paths are relative to the directory where `tercet` is typed. Without this storage,
    # each run would begin by copying that whole directory.
    deployment.storage = LocalStorage(str(Path.cwd()))
    return apply_deployment(deployment, is_shared=True)


def _make_pool(client: "SyncPrefectClient", name: str) -> None:
    """Makes a pool of the type `process` if there is none of that name."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound
    from prefect.workers.process import ProcessWorker

    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        pool = WorkPoolCreate(name=name, type="process", base_job_template=template)
        client.create_work_pool(pool)
        say(f"The work pool {name!r} is made: its workers run processes.")


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

    check_schedule(cron, interval)
    zone = None if cron is None else zone_of(timezone)
    plan = prepare(arguments)
    interrupts.listen()
    store, name = open_store(plan.store), plan.recipe.name

    def refuse(holder: str) -> None:
        raise BadInput("busy", f"The recipe {name} is served already ({holder}): stop that first.")

    # Only one `serve` per recipe: the first of two to end would pause the schedule of both.
    alone = locks.hold(store, f"serve-{name}", refuse, "tercet serve")
    with alone, server.prefect_server(store.work, say):
        from prefect.deployments.runner import EntrypointType

        from tercet.flows.service.pipeline_flow import pipeline
        from tercet.flows.service.serving import run_scheduled

        deployment: Any = pipeline.to_deployment(
            name=name,
            description=plan.recipe.description or None,
            schedules=[schedule_of(cron, zone, interval)] if cron or interval else None,
            parameters=portable(replace(arguments, store=store.location)),
            entrypoint_type=EntrypointType.MODULE_PATH,
            # The last `serve` paused it when it ended.
            paused=False,
        )
        when = f"every {interval} s" if interval else "on request"
        if cron and zone:
            when = in_words(cron, zone)
        identity = apply_deployment(deployment, is_shared=not server.owned(store.work))
        say(f"Serving {deployment.full_name} ({when}); stop with Ctrl-C.")
        run_scheduled(store, identity)


def portable(arguments: RunArguments) -> dict[str, Any]:
    """The flow's parameters, with absolute file paths: its process may run elsewhere."""
    full = {name: value for name, value in arguments.parameters().items() if value is not None}
    # Files get their full path, names of shipped recipes stay (`recipe_file.find`).
    if Path(arguments.recipe).is_file():
        full["recipe"] = str(Path(arguments.recipe).resolve())
    if arguments.corpus is not None:
        full["corpus"] = reader_of(arguments.corpus).portable(arguments.corpus)
    place = arguments.store
    return {**full, "store": place if "://" in place else str(Path(place).expanduser().resolve())}
