"""Parts of `tercet serve`, with a client of Prefect's that answers what it is told."""

import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from failures import fails

from tercet.flows.service import server
from tercet.flows.terminal import interrupts
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

    with fails("lost", "server.log"):
        api(dies)
    assert capsys.readouterr().err.count("was started again") == 3
    # It is had again, but not where the flows look for it.
    api.restarts.clear()
    moved = server.Server(1, 4201, 0.0)
    monkeypatch.setattr(server, "restart", lambda root: (moved, moved))
    with fails("lost", "4201"):
        api(dies)


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
    lines = capsys.readouterr().err
    assert lines.count("does not answer") == lines.count("answers again") == 1


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
