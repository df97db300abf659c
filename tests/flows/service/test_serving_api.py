"""Parts of `tercet serve`, with a client of Prefect's that answers what it is told."""

import json
import os
import signal
import subprocess
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest

from tercet.flows.service import server
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.failures import describe_failure
from tercet.storage import runs
from tercet.storage.store import open_store


def test_a_server_that_keeps_dying_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tercet.flows.service import serving

    starts = iter(range(100))
    address = server.Server(1, 4200, 0.0)
    monkeypatch.setenv("PREFECT_API_URL", address.api)
    monkeypatch.setattr(serving, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(server, "running", lambda root: address)
    monkeypatch.setattr(
        server, "restart", lambda root: (address, server.Server(next(starts), 4200, 0.0))
    )
    api = serving.Api(SimpleNamespace(), open_store(str(tmp_path / "s")), own=True)  # type: ignore[arg-type]

    def dies(client: Any) -> None:
        raise httpx.ConnectError("nobody there")

    with pytest.raises(server.ServerError) as caught:
        api(dies)
    said = describe_failure(caught.value)
    assert said.startswith("The Prefect server of this store died 4 times within an hour: see ")
    assert said.endswith("server.log, then start `tercet serve` again.")
    assert capsys.readouterr().err.count("was started again") == 3
    # Those of long ago do not count.
    old = time.monotonic() - serving.RESTART_SECONDS - 1
    api.restarts = deque([old] * len(api.restarts))
    answers = iter([httpx.ReadError("gone"), None])

    def dies_once(client: Any) -> str:
        if (error := next(answers)) is not None:
            raise error
        return "answer"

    assert api(dies_once) == "answer"
    # It is had again, but not where the flows look for it.
    moved = server.Server(1, 4201, 0.0)
    monkeypatch.setattr(server, "restart", lambda root: (moved, moved))
    with pytest.raises(server.ServerError, match=r"its port was taken: it is now at http"):
        api(dies)


def test_a_run_that_lost_its_server_at_its_start_is_started_again(tmp_path: Path) -> None:
    from tercet.flows.service import serving

    store = open_store(str(tmp_path / "s"))
    found = SimpleNamespace(name="ships 2026", parameters={"store": store.location})
    states: list[Any] = []
    client = SimpleNamespace(
        read_flow_run=lambda identity: found,
        set_flow_run_state=lambda identity, state, force: states.append(state),
    )
    api = serving.Api(client, store, own=False)  # type: ignore[arg-type]
    assert "is started again" in serving._ended(api, uuid4(), None, 1, lost=True)
    assert [state.name for state in states] == ["AwaitingRetry"]
    assert runs.list_runs(store) == []


def test_a_run_is_found_in_the_store_that_it_was_given_whatever_prefect_knows_of_it(
    tmp_path: Path,
) -> None:
    from tercet.flows.service import serving

    store, other = (open_store(str(tmp_path / name)) for name in ("s", "other"))
    before = datetime.now(UTC) - timedelta(seconds=1)
    runs.start_run(store, "boats", {}, {"pid": 7})
    run_id = runs.start_run(other, "ships", {}, {"pid": 7})
    runs.end_run(other, run_id, "done", {})
    state = SimpleNamespace(is_final=lambda: True)
    found = SimpleNamespace(labels={}, state=state, parameters={"store": other.location})
    client = SimpleNamespace(read_flow_run=lambda identity: found)
    api = serving.Api(client, store, own=False)  # type: ignore[arg-type]
    run = serving._recorded(api, uuid4(), before, 7)
    said = serving._ended(api, uuid4(), run, 0, lost=False)
    assert said.startswith(f"ships {run_id}: done after ")
    assert serving._recorded(api, uuid4(), datetime.now(UTC) + timedelta(seconds=1), 7) is None
    assert serving._recorded(api, uuid4(), before, 8) is None


def test_of_the_runs_that_a_schedule_left_the_newest_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tercet.flows.service import serving

    def due(name: str, auto: bool = True, count: int = 0) -> Any:
        return SimpleNamespace(id=name, auto_scheduled=auto, run_count=count)

    listed = [due("late"), due("asked", auto=False), due("later"), due("retried", count=1)]
    listed.append(due("newest"))
    cancelled = []

    def set_state(identity: str, state: Any) -> None:
        assert state.is_cancelled()
        cancelled.append(identity)
        listed.remove(next(one for one in listed if one.id == identity))

    client = SimpleNamespace(
        get_scheduled_flow_runs_for_deployments=lambda ids, before: list(listed),
        set_flow_run_state=set_state,
    )
    api = serving.Api(client, open_store(str(tmp_path / "s")), own=False)  # type: ignore[arg-type]
    ran = []
    while (found := serving._due(api, uuid4())) is not None:
        ran.append(found.id)
        listed.remove(found)
    assert ran == ["asked", "retried", "newest"]
    assert cancelled == ["late", "later"]
    assert "2 runs of the schedule were missed" in capsys.readouterr().err


def test_a_server_of_ones_own_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tercet.flows.service import serving

    monkeypatch.setattr(serving, "POLL_SECONDS", 0.0)
    api = serving.Api(SimpleNamespace(), open_store(str(tmp_path / "s")), own=False)  # type: ignore[arg-type]
    left = [httpx.ConnectError("nobody there")] * 5

    def answers(client: Any) -> str:
        if left:
            raise left.pop()
        return json.dumps({})

    assert api(answers) == "{}"
    said = capsys.readouterr().err
    assert said.count("does not answer") == said.count("answers again") == 1
    # But not by who is asked to end.
    left = [httpx.ConnectError("nobody there")]
    asked = Event()
    asked.set()
    monkeypatch.setattr(interrupts, "_asked", asked)
    with pytest.raises(KeyboardInterrupt):
        api(answers)


def test_a_run_that_starts_when_serve_is_stopped_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.schemas.responses import SetStateStatus

    from tercet.flows.service import serving

    store = open_store(str(tmp_path / "s"))
    state = SimpleNamespace(is_final=lambda: True, message="")
    found = SimpleNamespace(id=uuid4(), name="n", state=state, parameters={"store": store.location})
    client = SimpleNamespace(
        read_flow_run=lambda identity: found,
        set_flow_run_state=lambda identity, state: SimpleNamespace(status=SetStateStatus.ACCEPT),
    )
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        started.append(began(["sleep", "600"], **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    began = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    interrupts.listen()
    try:
        with pytest.raises(KeyboardInterrupt):
            serving._run(serving.Api(client, store, own=False), found)  # type: ignore[arg-type]
    finally:
        interrupts._asked.clear()
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert not psutil.pid_exists(started[0].pid)
    assert [run["state"] for run in runs.list_runs(store)] == ["interrupted"]
