"""Prefect's automations that watch over a recipe's deployments, each made once by its name.

Prefect's server acts on events alone, so these need nothing on any worker. Dying is seen by the
heartbeats that a running flow sends (`HEARTBEAT` in the deployments' own job variables); the bound
on reschedules is the flow's, which reads its own states (`count_reschedules`).

Importing this module imports prefect: enter `server.prefect_server` first.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import State

# In seconds; Prefect accepts no shorter heartbeats.
HEARTBEAT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
SILENT = timedelta(seconds=75)
# A server that was away has heard no heartbeat: a run that lives sends one within this time.
ASKED = timedelta(seconds=45)
PENDING = timedelta(seconds=600)
FAILED = timedelta(seconds=60)
RESCHEDULES = 3
SILENT_NAME = "Silent"
IS_SILENT = (
    f"No heartbeat for {SILENT.total_seconds():.0f} s: this server was away, or the run's process "
    f"is gone, which shows within {ASKED.total_seconds():.0f} s."
)
DEAD = f"No heartbeat for {SILENT.total_seconds():.0f} s: its process or its machine is gone."
RESCHEDULED = "Rescheduled by Tercet's automation: it goes on from what the store has."

_WAITING = ("Pending", "Submitting", "InfrastructurePending")
_SCHEDULED = ("Scheduled", "AwaitingRetry", "Late")
# States of a scheduled run that finds no free worker, or whose deployment has a limit.
_STILL_WAITS = ("Late", "AwaitingConcurrencySlot")
_ENDED = ("Completed", "Failed", "Cancelled", "Cancelling", "Crashed", "Suspended")
_OF_SERVER = {"owner_resource"}
# Parameters that a run of `train` takes over from the run of `synthesise` before it.
_SAME = ("recipe", "store", "overrides", "corpus", "limit", "seed")


def build_automations(
    recipe: str, train: UUID, synthesise: UUID | None = None, block: UUID | None = None
) -> list[AutomationCore]:
    """The automations of a recipe's deployments; only they are watched.

    Args:
        recipe: The recipe's name, which begins those of the automations.
        train: The deployment of the whole recipe.
        synthesise: That of its first half, which `train` follows; None if the recipe has none.
        block: The notification block that is told of failures; None for nobody.
    """
    each = [train] if synthesise is None else [synthesise, train]
    again = ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message=RESCHEDULED)
    # A run that has begun counts as alive, since it may die before its first heartbeat. A run's
    # last heartbeat may come after its end.
    alive = ("heartbeat", "Running")
    over = (*_ENDED, *_SCHEDULED, *_WAITING)
    silent = _trigger(("heartbeat", *over), each, alive, SILENT)
    # Prefect gives this type to no run that has ended; `pipeline_flow` takes it back.
    silence = ChangeFlowRunState(state=StateType.PAUSED, name=SILENT_NAME, message=IS_SILENT)
    gone = _trigger(("heartbeat", "Running", *over), each, (SILENT_NAME,), ASKED)
    crashed = ChangeFlowRunState(state=StateType.CRASHED, message=DEAD)
    stuck = _trigger(("Running", *_SCHEDULED, *_ENDED), each, _WAITING, PENDING)
    automations = [
        _automation(f"{recipe}: no heartbeat is silence", silent, silence),
        _automation(f"{recipe}: silence that lasts is a crash", gone, crashed),
        # A separate automation instead of a second action, since a server runs two actions at once.
        _automation(
            f"{recipe}: crashed without a heartbeat is rescheduled",
            _trigger(["Crashed"], each, match={"prefect.state-message": DEAD}),
            again,
        ),
        _automation(f"{recipe}: stuck in Pending is rescheduled", stuck, again),
    ]
    if synthesise is not None:
        follow = RunDeployment(
            source="selected", deployment_id=train, parameters={name: _of(name) for name in _SAME}
        )
        finished = _trigger(["Completed"], [synthesise])
        automations.append(_automation(f"{recipe}: train follows synthesise", finished, follow))
    if block is not None:
        tell = SendNotification(
            block_document_id=block,
            subject="Tercet: {{ flow_run.name }} {{ flow_run.state.name }}",
            body="{{ flow_run.state.message }}\n{{ flow_run|ui_url }}",
        )
        again_at_work = ("Running", *_WAITING, *_SCHEDULED)
        failed = _trigger(again_at_work, each, ("Failed", "Crashed"), FAILED)
        automations.append(_automation(f"{recipe}: failed for good tells a person", failed, tell))
    return automations


def apply_automations(
    client: "SyncPrefectClient", recipe: str, automations: Sequence[AutomationCore]
) -> None:
    """Makes the server's automations of this recipe equal to `automations`.

    An automation that is equal already is left alone, since it may be counting a run's silence.
    """
    existing: list[Automation] = []
    # The server returns them page by page.
    while page := client.read_automations(offset=len(existing)):
        existing += page
    standing = {one.name: one for one in existing if one.name.startswith(f"tercet {recipe}: ")}
    for one in automations:
        before = standing.pop(one.name, None)
        if before is None:
            client.create_automation(one)
        elif _content(before) != _content(one):
            client.update_automation(before.id, one)
    for left in standing.values():
        client.delete_automation(left.id)


def count_reschedules(states: "Iterable[State[Any]]") -> int:
    """How often automations have rescheduled a flow run since somebody last retried it by hand.

    states: in the order in which the run had them.
    """
    count, begun = 0, False
    for state in states:
        if state.type in (StateType.PENDING, StateType.RUNNING):
            begun = True
        elif state.type == StateType.SCHEDULED and state.name not in _STILL_WAITS:
            # Count one death once: a busy server may act on it twice.
            count = count + begun if state.message == RESCHEDULED else 0
            begun = False
    return count


def _automation(name: str, trigger: EventTrigger, *actions: Any) -> AutomationCore:
    built = AutomationCore(
        name=f"tercet {name}",
        description="Made by `tercet deploy`, which makes it anew when it is deleted.",
        trigger=trigger,
        actions=list(actions),
    )
    # An update sends only fields that were set, but the server needs the defaults as well.
    return AutomationCore.model_validate(built.model_dump(exclude=_OF_SERVER))


def _content(automation: AutomationCore) -> dict[str, Any]:
    """The automation's content, without fields that the server adds."""
    full = AutomationCore.model_validate(automation.model_dump())
    content: dict[str, Any] = full.model_dump(
        exclude={**dict.fromkeys(_OF_SERVER, True), "trigger": {"id"}}
    )
    return content


def _trigger(
    expect: Sequence[str],
    of: Sequence[UUID],
    after: Sequence[str] = (),
    within: timedelta | None = None,
    match: Mapping[str, str] | None = None,
) -> EventTrigger:
    """Fires on one of the events in `expect` or, with `within`, if none of them follows an event in
    `after` for so long."""
    return EventTrigger(
        after={f"prefect.flow-run.{event}" for event in after},
        expect={f"prefect.flow-run.{event}" for event in expect},
        match={"prefect.resource.id": "prefect.flow-run.*", **(match or {})},
        match_related={
            "prefect.resource.role": "deployment",
            "prefect.resource.id": [f"prefect.deployment.{one}" for one in of],
        },
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive if within is None else Posture.Proactive,
        threshold=1,
        within=within or timedelta(0),
    )


def _of(parameter: str) -> dict[str, Any]:
    """The triggering run's parameter, whatever its type."""
    template = f"{{{{ flow_run.parameters.get('{parameter}') | tojson }}}}"
    return {
        "__prefect_kind": "json",
        "value": {"__prefect_kind": "jinja", "template": template},
    }
