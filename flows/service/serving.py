"""`tercet serve` at work: what its deployment has scheduled is run, one run after the other.

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
from tercet.flows.service.pipeline_flow import LABEL_RUN, record_refused
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.lines import say
from tercet.storage import runs
from tercet.storage.store import Store, open_store

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun, State

PROCESS = "tercet.flows.service.flow_process"
POLL_SECONDS = 2.0
# What a run that is stopped has for its clean-up, before it is killed.
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
        """What the server answers, however long that takes.

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
                f"The Prefect server of this store died, and its port was taken: it is now at "
                f"{after.address}. Start `tercet serve` again."
            )
        if before == after:
            return False
        self.restarts.append(time.monotonic())
        while self.restarts[0] < time.monotonic() - RESTART_SECONDS:
            self.restarts.popleft()
        if len(self.restarts) > RESTARTS:
            raise server.ServerError(
                f"The Prefect server of this store died {len(self.restarts)} times within an hour: "
                f"see {log}, then start `tercet serve` again."
            )
        _tell("The Prefect server of this store had died, and was started again.")
        return True


@dataclass(frozen=True)
class Before:
    """What is known before an attempt of a flow run.

    run_id: the run that an earlier attempt has recorded. restarts: when the server was restarted.
    """

    run_id: Any
    restarts: tuple[float, ...]


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
                due = api(
                    lambda one: one.get_scheduled_flow_runs_for_deployments(
                        [deployment], datetime.now(UTC), limit=1
                    )
                )
                if not due or not _run(api, due[0]):
                    time.sleep(POLL_SECONDS)
                    api(lambda one: one.read_deployment(deployment))
        except KeyboardInterrupt:
            pass
        except ObjectNotFound as error:
            raise server.ServerError(
                "The deployment was deleted from Prefect: start `tercet serve` again to make it."
            ) from error
        finally:
            # A server that is away holds up nobody, and `serve` sets the schedule again.
            with suppress(Exception):
                client.pause_deployment(deployment)


def _run(api: Api, flow_run: "FlowRun") -> bool:
    """Runs one flow run in a process of its own and says how it ended. False if it may not run."""
    try:
        answer = api(lambda client: client.set_flow_run_state(flow_run.id, Pending()))
    except ObjectNotFound:
        return False
    if answer.status != SetStateStatus.ACCEPT:
        return False
    before = Before(flow_run.labels.get(LABEL_RUN), tuple(api.restarts))
    # In a session of its own: Ctrl-C reaches `serve`, which stops it.
    command = [sys.executable, "-m", PROCESS, str(flow_run.id)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while _is_going(process):
            found = api(lambda client: client.read_flow_run(flow_run.id))
            if found.state.is_cancelling():
                _stop(process)
                # Prefect's engine calls it a crash.
                api(lambda client: client.set_flow_run_state(flow_run.id, Cancelled(), force=True))
    except ObjectNotFound:
        _tell(f"The run {flow_run.name!r} was deleted from Prefect, and is stopped.")
    finally:
        _stop(process)
        with suppress(ObjectNotFound):
            _tell(_ended(api, flow_run.id, before, process.returncode))
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


def _ended(api: Api, flow_run: UUID, before: Before, code: int) -> str:
    """How the run ended, by the store, with the names that `ls` and Prefect show.

    Prefect learns here of an end that the process could not report.

    code: the exit code of its process.
    """
    found = api(lambda client: client.read_flow_run(flow_run))
    store = api.store
    run_id = found.labels.get(LABEL_RUN)
    if run_id in (None, before.run_id):
        if tuple(api.restarts) != before.restarts:
            api(lambda client: client.set_flow_run_state(flow_run, AwaitingRetry(), force=True))
            return f"The run {found.name!r} lost its server at its start, and is started again."
        said = found.state.message or f"Its process ended with exit code {code} at its start."
        stopped = code == -signal.SIGTERM
        run_id = record_refused(store, found, said, "interrupted" if stopped else "failed")
    else:
        # Who starts a run by Prefect's API may name another store.
        store = open_store(found.parameters["store"])
    run = runs.get_run(store, str(run_id))
    assert run is not None
    if not found.state.is_final():
        state = _state(found, run, code)
        api(lambda client: client.set_flow_run_state(flow_run, state, force=True))
    began = datetime.fromisoformat(run["started"])
    took = format_duration((datetime.now(UTC) - began).total_seconds())
    error = run["end_info"].get("error")
    why = f": {error}" if error else ""
    return f"{run['recipe_name']} {run_id}: {run['state']} after {took}{why}"


def _state(found: "FlowRun", run: runs.Run, code: int) -> "State[Any]":
    """The end of a flow run whose process did not report one."""
    if found.state is not None and found.state.is_cancelling():
        return Cancelled()
    if run["state"] == "done":
        return Completed()
    return Crashed(message=f"Its process ended with exit code {code}; the next run resumes it.")


def _tell(text: str) -> None:
    say(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}")
