"""The one server of a store: shared, gone with the last, found again after a kill."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from failures import fails
from faulty_server import silent_port, until
from tiny_run import in_use

from tercet.flows.service import server
from tercet.flows.service.server import answering

# Says which process is its server, and uses it until its standard input closes.
USER = """
import sys
from pathlib import Path
from tercet.flows.service import server
server.START_SECONDS = float(sys.argv[2])
store = Path(sys.argv[1])
with server.prefect_server(store, lambda text: None):
    print(server.running(store).pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(prefect_folder: Path, tmp_path: Path) -> Iterator[Path]:
    # A path that no URL can hold as it is.
    place = tmp_path / "it's 100%20 a?b=c #1 :memory:"
    shutil.copytree(prefect_folder, server.folder(place))
    yield place
    for process in servers(place):
        process.kill()


def servers(store: Path) -> list[psutil.Process]:
    """The living server processes of a store."""
    processes = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if server.PROCESS in words and str(server.folder(store.resolve())) in words:
            processes.append(process)
    return processes


def user(store: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", USER, str(store), str(server.START_SECONDS)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def its_server(process: "subprocess.Popen[str]") -> int:
    """The server that a user found, once it answers."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def killed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_up_within_the_block_and_gone_after(store: Path) -> None:
    lines: list[str] = []
    with server.prefect_server(store, lines.append) as url:
        live = server.running(store)
        assert live is not None
        assert server.healthy(live, 600.0)
        assert url == live.api == os.environ["PREFECT_API_URL"]
        assert os.environ["PREFECT_HOME"] == str(server.folder(store))
        assert lines == [f"Prefect server: {live.address}"]
        assert server.owned(store)
        # A second user in between neither starts another nor takes the first one's away.
        with server.prefect_server(store, lines.append) as again:
            assert again == url
        assert server.healthy(live, 600.0)
        assert [process.pid for process in servers(store)] == [live.pid]
    assert servers(store) == []
    assert server.running(store) is None
    assert "PREFECT_API_URL" not in os.environ


@pytest.mark.parametrize("password", ["se/cr@et", "secret"])
def test_a_given_server_is_used_and_its_password_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    url = f"https://me:{password}@prefect.example:4200/api"
    lines: list[str] = []
    monkeypatch.setenv("PREFECT_API_URL", url)
    with server.prefect_server(tmp_path, lines.append) as used:
        assert used == url
        assert not server.owned(tmp_path)
    assert lines == ["Prefect server: https://prefect.example:4200/api (PREFECT_API_URL)"]
    assert list(tmp_path.iterdir()) == []


def test_only_the_process_that_was_recorded_is_ended(tmp_path: Path) -> None:
    """A number that the system has given to another store's server since."""
    code = "import sys, time; print(flush=True); time.sleep(3600)"
    command = [sys.executable, "-c", code, server.PROCESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            started = psutil.Process(other.pid).create_time()
            record = tmp_path / "server.json"
            record.write_text(json.dumps({"pid": other.pid, "port": 1, "started": started - 60}))
            server._kill_holder(tmp_path)
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(0.3)
            record.write_text(json.dumps({"pid": other.pid, "port": 1, "started": started}))
            server._kill_holder(tmp_path)
            # Whether `_kill_holder` or this test reaps it is a race, so its code is not known.
            other.wait(600)
        finally:
            other.kill()


def test_all_starting_at_once_share_one(store: Path) -> None:
    users = [user(store) for _ in range(3)]
    # None leaves before all have come.
    pids = [its_server(process) for process in users]
    for process in users:
        process.communicate(timeout=600)
    assert len(set(pids)) == 1
    assert servers(store) == []


def test_survivor_of_a_kill_is_used_again_and_then_stopped(store: Path) -> None:
    first = user(store)
    pid = its_server(first)
    # However late the second one comes.
    with in_use(store):
        killed(first)
        assert [process.pid for process in servers(store)] == [pid]
        second = user(store)
        assert its_server(second) == pid
    second.communicate(timeout=600)
    assert servers(store) == []


def test_killed_while_it_started_there_is_still_only_one(store: Path) -> None:
    first = user(store)
    assert until(lambda: servers(store))
    killed(first)
    with server.prefect_server(store, lambda text: None):
        # Another that was started meanwhile finds the store taken, and ends by itself.
        assert until(lambda: len(servers(store)) == 1)
    assert servers(store) == []


def test_hung_server_is_replaced(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = user(store)
    pid = its_server(first)
    os.kill(pid, signal.SIGSTOP)
    killed(first)
    record = server.folder(store) / "server.json"
    old = {**json.loads(record.read_text()), "started": time.time() - 1000}
    record.write_text(json.dumps(old))
    monkeypatch.setattr(server, "HEALTH_SECONDS", 1.0)
    monkeypatch.setattr(server, "SAME_START_SECONDS", 2000.0)
    with server.prefect_server(store, lambda text: None):
        live = server.running(store)
        assert live is not None
        assert live.pid != pid
        assert len(servers(store)) == 1
    assert servers(store) == []


def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROCESS", "tercet.flows.there_is_no_such_module")
    with (
        fails("lost", "no_such_module"),
        server.prefect_server(tmp_path, lambda text: None),
    ):
        pass


def test_stops_by_itself_when_all_its_users_were_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from tercet.flows.service import server_process as p;"
        "p.ORPHAN_SECONDS = 0.6; p._stop_when_alone(Path(sys.argv[1]))"
    )
    with (tmp_path / "users.lock").open("ab") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(3)
    assert child.wait(600) == -signal.SIGTERM


class _Answers(BaseHTTPRequestHandler):
    """Answers everything alike: with the code and the body that its path begins with."""

    def do_GET(self) -> None:
        _, code, body, *_ = self.path.split("/")
        self.send_response(int(code))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *told: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as strange:
        Thread(target=strange.serve_forever, daemon=True).start()
        yield f"http://you:secret@127.0.0.1:{strange.server_port}"
        strange.shutdown()


@pytest.mark.parametrize(
    ("answer", "kind", "name"),
    [
        ("401/{}", "refused", "PREFECT_API_AUTH_STRING"),
        ("403/{}", "refused", "PREFECT_API_AUTH_STRING"),
        ("404/{}", "unreachable", "PREFECT_API_URL"),
        ("200/page", "unreachable", "PREFECT_API_URL"),
        (None, "unreachable", "PREFECT_API_URL"),
    ],
)
def test_what_is_not_the_api(
    address: str,
    answer: str | None,
    kind: Any,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with silent_port() as port:
        nobody = f"http://you:secret@127.0.0.1:{port}/api"
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/{answer}" if answer else nobody)
        used = server.prefect_server(tmp_path, lambda text: None)
        with (
            used,
            fails(kind, name, "//127.0.0.1:" if answer is None else "") as raised,
            answering(),
        ):
            pass
    assert "secret" not in str(raised.value)
