"""Runs of a work pool: which of them the schedule has overtaken, and which still live.

Importing this module imports prefect: enter `server.prefect_server` first.
"""

import contextlib
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

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
from prefect.states import Cancelled, Running

from tercet.flows.service import automations

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

LOOK_SECONDS = 20.0
MISSED = "A later run of the schedule was due as well."


def is_missed(flow_run: "FlowRun", now: datetime | None = None) -> bool:
    """Whether later runs of the schedule are due too, of which the newest stands for all: the
    others are cancelled, as `tercet serve` does it.
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
            # A worker has the others already, and they see it themselves.
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
    # With the settings of this thread, such as the server's address.
    looking = threading.Thread(target=contextvars.copy_context().run, args=(look,), daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
