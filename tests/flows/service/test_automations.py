"""What is counted of a flow run's states; that the automations act, test_deploy_service shows."""

from types import SimpleNamespace
from typing import Any

from prefect.states import AwaitingRetry, Crashed, Late, Pending, Running, Scheduled, State

from tercet.flows.service.automations import (
    DEAD,
    RESCHEDULED,
    apply_automations,
    count_reschedules,
)


def died() -> list[State]:
    """A run dies, waits for a worker for a while, and begins again."""
    waits = [AwaitingRetry(message=RESCHEDULED), Late(), Scheduled(name="AwaitingConcurrencySlot")]
    return [Crashed(message=DEAD), *waits, Pending(), Running()]


def test_reschedules_are_counted_since_the_last_retry_by_hand() -> None:
    begun = [Scheduled(), Pending(), Running()]
    assert count_reschedules(begun) == 0
    assert count_reschedules([*begun, *died(), *died()]) == 2
    by_hand = [AwaitingRetry(message="Retry from the UI"), Pending(), Running()]
    assert count_reschedules([*begun, *died(), *died(), *by_hand]) == 0
    assert count_reschedules([*begun, *died(), *by_hand, *died()]) == 1


def test_one_death_counts_once_however_often_it_is_acted_on() -> None:
    twice = [Crashed(message=DEAD), AwaitingRetry(message=RESCHEDULED)] * 2
    assert count_reschedules([Scheduled(), Pending(), Running(), *twice, Pending(), Running()]) == 1


def test_a_server_with_more_automations_than_it_gives_at_once_keeps_none_that_are_old() -> None:
    standing = [
        SimpleNamespace(name=f"tercet {recipe}: a former one", id=recipe)
        for recipe in ("boats", "ships", "trains")
    ]
    deleted: list[str] = []
    client: Any = SimpleNamespace(
        read_automations=lambda offset: standing[offset : offset + 1],
        delete_automation=deleted.append,
    )
    apply_automations(client, "ships", [])
    assert deleted == ["ships"]
