"""`tercet serve` at work: it runs what its deployment has scheduled, one run after another.

Prefect's own Runner ends the run under way if its server is away for half a minute, and then
neither ends nor runs anything. Here a run outlives its server, which is started again.

Importing this module imports prefect: enter `server.prefect_server` first.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Pending

from tercet.flows.formatting import format_duration
from tercet.flows.service import server
from tercet.flows.service.pipeline_flow import MISSED, record_refused
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.progress import say
from tercet.storage import runs
from tercet.storage.store import Store, StoreError, open_store

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun, State

PROCESS = "tercet.flows.service.flow_process"
POLL_SECONDS = 2.0
# Time that a stopped run has to clean up before it is killed.
STOP_SECONDS = 30.0
# A server that dies more often than this is not started again.
RESTARTS, RESTART_SECONDS = 3, 3600.0


@dataclass
class Api:
    """Prefect's API, asked until it answers.

    own: whether it is the store's server, which is started again if it has ended or hangs.
    """

    client: SyncPrefectClient
    store: Store
    own: bool
    restarts: deque[float] = field(default_factory=deque)

    def __call__(self, question: Callable[[SyncPrefectClient], Any]) -> Any:
        """The server's answer, however long it takes.

        Raises: ServerError if the store's server has died too often; KeyboardInterrupt if it does
            not answer and this process is asked to end.
        """
        away = False
        while True:
            try:
                if self.own and server.running(self.store.work) is None:
                    self._restart()
                answer = question(self.client)
            except (httpx.TransportError, PrefectHTTPStatusError) as error:
                if isinstance(error, PrefectHTTPStatusError) and not error.response.is_server_error:
                    raise
                interrupts.check()
                if not (self.own and self._restart()) and not away:
                    away = True
                    _tell("Prefect's server does not answer; it is asked until it does.")
                time.sleep(POLL_SECONDS)
                continue
            if away:
                _tell("Prefect's server answers again.")
            return answer

    def _restart(self) -> bool:
        """Starts the store's server again, unless its health page answers after all."""
        before, after = server.restart(self.store.work)
        log = server.folder(self.store.work) / "server.log"
        if after.api != os.environ["PREFECT_API_URL"]:
            raise server.ServerError(
                "lost",
                f"The Prefect server of this store died, and its port was taken: it is now at "
                f"{after.address}. Start `tercet serve` again.",
            )
        if before == after:
            return False
        self.restarts.append(time.monotonic())
        while self.restarts[0] < time.monotonic() - RESTART_SECONDS:
            self.restarts.popleft()
        if len(self.restarts) > RESTARTS:
            raise server.ServerError(
                "lost",
                f"The Prefect server of this store died {len(self.restarts)} times within an hour: "
                f"see {log}, then start `tercet serve` again.",
            )
        _tell("The Prefect server of this store had died, and was started again.")
        return True


def run_scheduled(store: Store, deployment: UUID) -> None:
    """Runs what is scheduled until SIGTERM or Ctrl-C, then pauses the schedule.

    Raises: ServerError if the store's server has died too often, or the deployment was deleted.
    """
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True) as client,
    ):
        api = Api(client, store, server.owned(store.work))
        try:
            while True:
                due = _due(api, deployment)
                if due is None or not _run(api, due):
                    time.sleep(POLL_SECONDS)
                    api(lambda one: one.read_deployment(deployment))
        except KeyboardInterrupt:
            pass
        except ObjectNotFound as error:
            raise server.ServerError(
                "gone",
                "The deployment was deleted from Prefect: start `tercet serve` again to make it.",
            ) from error
        finally:
            # A server that is away holds up nobody, and `serve` sets the schedule again.
            with suppress(Exception):
                client.pause_deployment(deployment)


def _due(api: Api, deployment: UUID) -> "FlowRun | None":
    """The run that is due first. If the schedule left several runs while nobody could run them, the
    newest stands for all: the rest are cancelled."""
    now = datetime.now(UTC)
    due = api(lambda one: one.get_scheduled_flow_runs_for_deployments([deployment], now))
    missed = [one for one in due if one.auto_scheduled and not one.run_count][:-1]
    state = Cancelled(message=MISSED)
    for one in missed:
        with suppress(ObjectNotFound):
            api(methodcaller("set_flow_run_state", one.id, state))
    if missed:
        _tell(f"{len(missed)} runs of the schedule were missed: the newest is run for all.")
    return next((one for one in due if one not in missed), None)


def _run(api: Api, flow_run: "FlowRun") -> bool:
    """Runs one flow run in a new process and says how it ended. False if it may not run."""
    try:
        answer = api(lambda client: client.set_flow_run_state(flow_run.id, Pending()))
    except ObjectNotFound:
        return False
    if answer.status != SetStateStatus.ACCEPT:
        return False
    began, restarts = datetime.now(UTC), tuple(api.restarts)
    # A new session, so that Ctrl-C reaches only `serve`, which then stops the run.
    command = [sys.executable, "-m", PROCESS, str(flow_run.id)]
    process = None
    try:
        # An interrupt while the process starts would leave it behind.
        with interrupts.held():
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        interrupts.check()
        while _is_going(process):
            current = api(lambda client: client.read_flow_run(flow_run.id))
            if current.state.is_cancelling():
                _stop(process)
                # Prefect's engine would call the cancelled run crashed.
                api(lambda client: client.set_flow_run_state(flow_run.id, Cancelled(), force=True))
    except ObjectNotFound:
        _tell(f"The run {flow_run.name!r} was deleted from Prefect, and is stopped.")
    finally:
        if process is not None:
            _stop(process)
            with suppress(ObjectNotFound):
                run = _recorded(api, flow_run.id, began, process.pid)
                lost = run is None and tuple(api.restarts) != restarts
                _tell(_ended(api, flow_run.id, run, process.returncode, lost))
    return True


def _is_going(process: "subprocess.Popen[bytes]") -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(POLL_SECONDS)
    return process.returncode is None


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ends the process if it has not: it gets the time to record that it was interrupted."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()


def _recorded(api: Api, flow_run: UUID, began: datetime, pid: int) -> runs.Run | None:
    """The run that the process has recorded in its store since `began`, or None."""
    store = api.store
    with suppress(StoreError):
        # A run started through Prefect's API may name another store.
        location = api(lambda client: client.read_flow_run(flow_run)).parameters["store"]
        store = open_store(location, create=False)
    return next(
        (
            run
            for run in runs.list_runs(store)
            if run["info"].get("pid") == pid and datetime.fromisoformat(run["started"]) >= began
        ),
        None,
    )


def _ended(api: Api, flow_run: UUID, run: runs.Run | None, code: int, lost: bool) -> str:
    """How the run ended, by the store, with the names that `ls` and Prefect show.

    Prefect learns here of an end that the process could not report.

    run: as recorded. code: the exit code of its process. lost: whether it lost its server before
        it could record anything.
    """
    current = api(lambda client: client.read_flow_run(flow_run))
    if lost:
        api(lambda client: client.set_flow_run_state(flow_run, AwaitingRetry(), force=True))
        return f"The run {current.name!r} lost its server at its start, and is started again."
    if run is None:
        message = current.state.message or f"Its process ended with exit code {code} at its start."
        stopped = code == -signal.SIGTERM
        run_id = record_refused(api.store, current, message, "interrupted" if stopped else "failed")
        run = runs.get_run(api.store, run_id)
        assert run is not None
    if not current.state.is_final():
        state = _state(current, run, code)
        api(lambda client: client.set_flow_run_state(flow_run, state, force=True))
    began = datetime.fromisoformat(run["started"])
    took = format_duration((datetime.now(UTC) - began).total_seconds())
    error = run["end_info"].get("error")
    why = f": {error}" if error else ""
    return f"{run['recipe_name']} {run['run_id']}: {run['state']} after {took}{why}"


def _state(flow_run: "FlowRun", run: runs.Run, code: int) -> "State[Any]":
    """The end of a flow run whose process did not report one."""
    if flow_run.state is not None and flow_run.state.is_cancelling():
        return Cancelled()
    if run["state"] == "done":
        return Completed()
    return Crashed(message=f"Its process ended with exit code {code}; the next run resumes it.")


def _tell(text: str) -> None:
    say(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}")
