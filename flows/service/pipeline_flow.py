"""The Prefect flow that runs a recipe, and the tasks that its steps are.

Prefect shows, schedules, retries and alerts; the store knows what is done. Therefore Prefect caches
and persists nothing, tasks take and return names, and a killed run resumes when the same flow runs
again.

Importing this module imports prefect: enter `server.prefect_server` first.
"""

import contextlib
import contextvars
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.context import FlowRunContext
from prefect.runtime import flow_run as running_flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Cancelled, Completed, Crashed, Failed, Running
from pydantic import Field

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe import secrets
from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import automations, run_artifact, server
from tercet.flows.service.run_artifact import PrefectArtifact
from tercet.flows.terminal.failures import (
    StageFailed,
    describe_failure,
    exit_code,
    is_foreseen,
)
from tercet.flows.terminal.progress import Reporter, say, show_step
from tercet.models.errors import CeilingReached
from tercet.tasks.stage import Interrupted

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State

    from tercet.flows.pipeline.step import Step
    from tercet.flows.running.one_step import RunHandle
    from tercet.flows.running.run_plan import RunPlan
    from tercet.flows.running.runner import Make, StepResult
    from tercet.storage.store import Store


LABEL_RUN = "tercet.run"
LABEL_STORE = "tercet.store"
LABEL_HOST = "tercet.host"
RETRY_SECONDS = 5
# A flow run without a lock may be about to take it while its process starts.
STARTING = timedelta(seconds=120)


# A text that may be stored: Prefect's server refuses a run whose parameters hold a secret.
Plain = Annotated[str, Field(json_schema_extra={"pattern": secrets.WITHOUT})]

# Plans passed to `run`, kept for the flow, whose parameters have JSON types.
_plans: dict[RunArguments, "RunPlan"] = {}


def _flow_run_name() -> str:
    recipe = _recipe_name(running_flow.parameters)
    return f"{recipe} {datetime.now().astimezone():%Y-%m-%d %H:%M:%S}"


def _recipe_name(parameters: Mapping[str, Any]) -> str:
    """The recipe's name or, if it cannot be read, its file's name."""
    recipe = str(parameters.get("recipe", "recipe"))
    with contextlib.suppress(Exception):
        return recipe_file.load(recipe).name
    return Path(recipe).stem


def _may_retry(task: Any, task_run: Any, state: "State[Any]") -> bool:
    """Whether a retry may help: not with faults that the user has to fix."""
    try:
        state.result(raise_on_failure=True)
    except BaseException as error:
        return exit_code(error) == 1 and not isinstance(error, CeilingReached)
    return False


class OneSentence(logging.Filter):
    """Leaves the sentence of a failure that is foreseen, where Prefect logs a traceback of it."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and is_foreseen(error):
            record.msg, record.args, record.exc_info = describe_failure(error), (), None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(OneSentence())


class StepTasks:
    """A listener of `run_steps` that makes each step a task with the step's name.

    A reused step ends as Cached; any other step ends with its version, time and row counts.
    """

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._ended: dict[str, State[Any]] = {}

    def __call__(self, step: "Step", make: "Make") -> "StepResult":
        results: list[StepResult] = []
        errors: list[Exception] = []

        @task(  # type: ignore[untyped-decorator]
            name=step.name,
            task_run_name=step.name,
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=self._retries,
            retry_delay_seconds=RETRY_SECONDS,
            retry_condition_fn=_may_retry,
        )
        def run() -> Any:
            try:
                with Reporter([PrefectArtifact(step.name)]) as progress:
                    results.append(make(progress))
            except Exception as error:
                errors.append(error)
                raise
            return _completed(results[-1])

        before = [self._ended[name] for name in step.needs if name in self._ended]
        state = run(wait_for=before, return_state=True)
        if not state.is_completed():
            raise (
                errors[-1]
                if errors
                else RuntimeError(f"The step {step.name!r} ended as {state.name}: {state.message}")
            )
        self._ended[step.name] = state
        return results[-1]


def _completed(result: "StepResult") -> Any:
    if result.state == "reused":
        return Completed(name="Cached", message=f"{result.step}: reused version {result.version}.")
    rows = ", ".join(f"{count:,} {table}" for table, count in result.tables.items() if count)
    message = (
        f"{result.step}: version {result.version}, {result.state} in {result.seconds:.1f} s: "
        f"{rows or 'no rows'}."
    )
    return Completed(message=message)


@flow(  # type: ignore[untyped-decorator]
    name="tercet", flow_run_name=_flow_run_name, persist_result=False
)
def pipeline(
    recipe: Annotated[Plain, Field(examples=recipe_file.shipped())],
    store: Plain,
    overrides: list[Plain] | None = None,
    corpus: Plain | None = None,
    until: Plain | None = None,
    limit: int | None = None,
    seed: int | None = None,
    retry_failed: bool = False,
) -> Any:
    """Runs a recipe: each step is a task, in order. Returns the run's id in the store.

    Parameters are those of `tercet run` in JSON types, as deployments require.

    Args:
        recipe: The name of a shipped recipe (quickstart, tercet, search, simcse …), or the path of
            a recipe's YAML file on the worker.
        store: The store's directory, as an absolute path on the worker.
        overrides: Changes of the recipe, each as KEY=VALUE: `train.phases.0.epochs=2`.
        corpus: A file, a folder or a glob on the worker in place of the recipe's corpora.
        until: The stage or table after which to stop; the whole recipe if empty.
        limit: Rows of each corpus, at most.
        seed: A number in place of the recipe's seed.
        retry_failed: Whether to ask the language model again about rows that failed.

    Raises the failing step's error; the flow run's state has it in one sentence.
    """
    from tercet.flows.results.verdict import verdict_of
    from tercet.storage.store import open_store

    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    flow_run = context.flow_run
    opened: list[str] = []
    place = None
    try:
        if is_missed(flow_run):
            return Cancelled(message=MISSED)
        place = open_store(store)
        _check_reschedules(place, flow_run)
        with server.joined(place.work), _marked(place, flow_run):
            arguments = RunArguments(
                recipe, store, tuple(overrides or ()), corpus, until, limit, seed, retry_failed
            )
            handle = _run_steps(_plan(arguments), flow_run, opened.append)
            verdict = verdict_of(handle.end_info)
            message = None if verdict is None else verdict.sentence()
            return Completed(data=str(handle.run_id), message=message)
    except Interrupted as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        message = describe_failure(error)
        # A run without a deployment shows the sentence at its terminal.
        if flow_run.deployment_id is not None:
            if place is not None and not opened:
                with contextlib.suppress(Exception):
                    run_id = record_refused(place, flow_run, message)
                    run_artifact.publish_refused(place, run_id)
            # Prefect keeps the error to the end of the process, and its frames would keep DuckDB,
            # whose bindings then print what they call leaks into the log of `serve`.
            error = error.with_traceback(None)
        return Failed(message=message, data=error)


def record_refused(place: "Store", flow_run: "FlowRun", message: str, state: str = "failed") -> str:
    """Records in the store that a deployment's run ended before it was opened. Returns its id."""
    from tercet.storage import runs

    recipe = _recipe_name(flow_run.parameters)
    arguments = {name: value for name, value in flow_run.parameters.items() if name != "store"}
    info = {"arguments": arguments, "pid": os.getpid()}
    run_id = runs.refuse_run(place, recipe, info, message, state)
    _name_run(flow_run, recipe, run_id)
    return run_id


def run(plan: "RunPlan") -> str:
    """Runs the pipeline in this process and returns the run's id; called by `tercet run`.

    Raises the failing step's error.
    """
    from tercet.storage.store import work_of

    # Prefect would wait up to a second for its heartbeat thread; our own sweep finds dead runs.
    alone = server.owned(work_of(plan.arguments.store))
    quick = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if alone else {}
    _plans[plan.arguments] = plan
    with temporary_settings(quick):
        try:
            return str(pipeline(**plan.arguments.parameters()))
        finally:
            _drain()


def _plan(arguments: RunArguments) -> "RunPlan":
    """The plan already made by this process or, in a deployment, made now."""
    from tercet.flows.running.run_plan import prepare

    return _plans.pop(arguments, None) or prepare(arguments)


def _run_steps(plan: "RunPlan", flow_run: "FlowRun", opened: Callable[[str], None]) -> "RunHandle":
    from tercet.flows.results import verdict
    from tercet.flows.running.runner import open_run, run_steps

    run_id = None
    try:
        with open_run(plan, say) as handle:
            run_id = str(handle.run_id)
            opened(run_id)
            _name_run(flow_run, plan.recipe.name, run_id)
            run_steps(handle, [show_step, StepTasks(plan.recipe.run.retries)])
            verdict.judge(handle)
    finally:
        # The artifact is for users who see only Prefect; `tercet run` prints a summary.
        if run_id is not None and flow_run.deployment_id is not None:
            with contextlib.suppress(Exception):
                run_artifact.publish_run(plan, run_id)
    verdict.settle(handle)
    return handle


def _check_reschedules(place: "Store", flow_run: "FlowRun") -> None:
    """Raises StageFailed for a run that died after each of as many reschedules as are allowed."""
    from prefect.client.orchestration import get_client

    from tercet.storage import locks

    # While the process before this one lives, no run has died: this process waits for it.
    if flow_run.deployment_id is None or locks.is_held(place, _lock_name(flow_run)):
        return
    with get_client(sync_client=True) as client:
        count = automations.count_reschedules(client.read_flow_run_states(flow_run.id))
        # Only this process knows that a dead process left these tasks running.
        if count:
            _crash_tasks(client, flow_run, Crashed(message="Its process is gone."))
    if count > automations.RESCHEDULES:
        raise StageFailed(
            "lost",
            f"This run died and was rescheduled {automations.RESCHEDULES} times, and died again: "
            "look at its machine for what kills it (often memory: lower run.batch_size or "
            "run.memory_limit), and retry it by hand.",
        )


@contextmanager
def _marked(place: "Store", flow_run: "FlowRun") -> Iterator[None]:
    """Sweeps up after dead runs, and marks this run so that others see that it is alive."""
    from tercet.storage import locks

    with locks.hold(place, _lock_name(flow_run), who="its flow run"):
        host = {LABEL_HOST: socket.gethostname(), LABEL_STORE: place.location}
        _label(flow_run, host)
        with contextlib.suppress(Exception):
            sweep(place)
        with speaking_up(flow_run):
            yield


def sweep(place: "Store", now: datetime | None = None) -> list[str]:
    """Marks this store's flow runs as Crashed if their process is gone. Returns their names.

    A process killed with `kill -9` leaves its flow run RUNNING. Each process holds a lock in the
    store, which the system then releases. On a server shared by several machines, only runs on this
    machine count. Runs of a work pool do not count: automations of `tercet deploy` mark and
    reschedule them.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType

    from tercet.storage import locks

    now = now or datetime.now(UTC)
    live = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    here = {LABEL_HOST: socket.gethostname(), LABEL_STORE: place.location}
    alone = server.owned(place.work)
    swept = []
    with get_client(sync_client=True) as client:
        live_runs = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=live)))
        for flow_run in client.read_flow_runs(flow_run_filter=live_runs, limit=200):
            if flow_run.work_pool_name is not None:
                continue
            marked = all(flow_run.labels.get(k) == v for k, v in here.items())
            if locks.is_held(place, _lock_name(flow_run)) or not (marked or alone):
                continue
            # The mark may be an earlier attempt's, and the run be about to take its lock.
            if flow_run.state is None or now - flow_run.state.timestamp < _patience(
                flow_run, marked
            ):
                continue
            dead = Crashed(message="Its process is gone; the same command resumes it.")
            client.set_flow_run_state(flow_run.id, dead, force=True)
            _crash_tasks(client, flow_run, dead)
            swept.append(flow_run.name)
    return swept


def _crash_tasks(client: "SyncPrefectClient", flow_run: "FlowRun", dead: "State[Any]") -> None:
    """Marks as dead the flow run's tasks that have not ended."""
    from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId

    of_run = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[flow_run.id]))
    for task_run in client.read_task_runs(task_run_filter=of_run):
        if task_run.state is not None and not task_run.state.is_final():
            client.set_task_run_state(task_run.id, dead, force=True)


def _patience(flow_run: "FlowRun", marked: bool) -> timedelta:
    """The grace time of a flow run without a lock: a deployment's waits for its process."""
    first = (
        marked
        and flow_run.run_count <= 1
        and flow_run.state is not None
        and flow_run.state.is_running()
    )
    return timedelta(0) if first else STARTING


def _lock_name(flow_run: "FlowRun") -> str:
    return f"flow-{flow_run.id}"


def _name_run(flow_run: "FlowRun", recipe: str, run_id: str) -> None:
    """Names the flow run by the run's id in the store, which `tercet ls` shows too."""
    from prefect.client.orchestration import get_client

    _label(flow_run, {LABEL_RUN: run_id})
    with contextlib.suppress(Exception), get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, name=f"{recipe} {run_id}")


def _label(flow_run: "FlowRun", labels: dict[str, Any]) -> None:
    from prefect.client.orchestration import get_client

    # Labels are for people and the sweep: if the server refuses them, the run continues.
    with contextlib.suppress(Exception), get_client(sync_client=True) as client:
        client.update_flow_run_labels(flow_run.id, labels)


def _drain() -> None:
    """Sends Prefect's queued task states and logs before its server may stop."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    with contextlib.suppress(Exception):
        EventsWorker.drain_all(timeout=15)
        APILogWorker.drain_all(timeout=15)


# Runs of a work pool: which of them the schedule has overtaken, and which still live.
#
# Importing this module imports prefect: enter `server.prefect_server` first.

LOOK_SECONDS = 20.0
MISSED = "A later run of the schedule was due as well."


def is_missed(flow_run: "FlowRun", now: datetime | None = None) -> bool:
    """Whether later runs of the schedule are due too. The newest stands for all; the rest are
    cancelled, as in `tercet serve`.
    """
    if not flow_run.auto_scheduled or flow_run.run_count > 1 or flow_run.work_pool_name is None:
        return False
    waiting = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]
    with get_client(sync_client=True) as client:
        due = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                deployment_id=FlowRunFilterDeploymentId(any_=[flow_run.deployment_id]),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=waiting)),
                expected_start_time=FlowRunFilterExpectedStartTime(
                    after_=flow_run.expected_start_time, before_=now or datetime.now(UTC)
                ),
            ),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        )
        later = [
            one
            for one in due
            if one.auto_scheduled
            and one.run_count <= 1
            and one.expected_start_time > flow_run.expected_start_time
        ]
        for one in later[:-1]:
            # Runs in another state are with a worker already, and find out themselves that they are
            # missed.
            if one.state_type == StateType.SCHEDULED:
                client.set_flow_run_state(one.id, Cancelled(message=MISSED))
    return bool(later)


@contextmanager
def speaking_up(flow_run: "FlowRun") -> Iterator[None]:
    """Says that a deployment's run goes on, where the server took it for silent while it was away.

    Only the run itself knows for sure that it has not ended.
    """
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception), get_client(sync_client=True) as client:
                state = client.read_flow_run(flow_run.id).state
                if state is not None and state.name == automations.SILENT_NAME:
                    client.set_flow_run_state(flow_run.id, Running())

    if flow_run.deployment_id is None or flow_run.work_pool_name is None:
        yield
        return
    # The context holds this thread's settings, such as the server's address.
    looking = threading.Thread(target=contextvars.copy_context().run, args=(look,), daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
