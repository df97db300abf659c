"""A real vLLM, started, asked, killed and stopped. Each start takes half a minute: few are made."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm import engine as engine_module
from tercet.models.llm.vllm.engine import RECORD, Engine

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["entity", "quantity"]}, "count": {"enum": [1, 2, 3]}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
# Longer than anything takes where nobody waits in vain, and than any start of vLLM.
SECONDS, START_SECONDS = 300.0, 3600.0
PARENT = """
import sys, time
from pathlib import Path
from tercet.models.llm.vllm.engine import Engine
from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
model, python, folder = sys.argv[1:]
Engine(
    Path(model), LlmSettings(model=model), EngineSettings(python=python, start_seconds=3600),
    Path(folder), print
).start()
"""


def engine(
    model: Path, python: str | None, folder: Path, say: Callable[[str], None] = print, **llm: Any
) -> Engine:
    settings = EngineSettings(python=python, start_seconds=START_SECONDS, **llm.pop("settings", {}))
    return Engine(model, LlmSettings(model=str(model), **llm), settings, folder, say)


def post(url: str, path: str, body: dict[str, Any]) -> Any:
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/{path}", json.dumps(body), headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return json.loads(response.read())
    finally:
        connection.close()


def record(folder: Path) -> dict[str, Any]:
    """What the engine says of itself, once it does."""
    path = folder / RECORD
    # It is there before it is written.
    assert until(lambda: path.exists() and path.read_text().endswith("}"))
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def group(number: int) -> list[psutil.Process]:
    """The living processes of a group."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def listening(process: psutil.Process) -> set[str]:
    """The addresses that a process listens at; none of one that has ended meanwhile."""
    try:
        connections = process.net_connections("tcp")
    except psutil.NoSuchProcess:
        return set()
    return {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}


def until(true: Callable[[], bool], seconds: float = SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """What stands still for a while on a busy machine is not broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tercet.models.llm.vllm.build._LOOK_SECONDS", SECONDS)
        patch.setattr("tercet.models.llm.vllm.gpu_memory._ANSWER_SECONDS", SECONDS)
        yield


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "run"


@pytest.fixture(scope="module")
def up(
    tiny_llm: Path, vllm_python: str, folder: Path, said: list[str]
) -> Iterator[tuple[Engine, str]]:
    """One engine for the tests below, in the order in which they stand."""
    started = engine(tiny_llm, vllm_python, folder, said.append)
    try:
        yield started, started.start()
    finally:
        started.stop()


@pytest.mark.slow
def test_it_answers_completions_and_chats(up: tuple[Engine, str], said: list[str]) -> None:
    started, url = up
    assert started.name == "tiny"
    texts = {"model": started.name, "prompt": ["red", "one two"], "max_tokens": 4}
    choices = post(url, "completions", texts)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]
    chat = {
        "model": started.name,
        "messages": [{"role": "user", "content": "red"}],
        "max_tokens": 60,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
    }
    answer = post(url, "chat/completions", chat)["choices"][0]["message"]["content"]
    assert set(json.loads(answer)) == {"kind", "count"}
    # A random model has nothing against white space: it is the server that writes none.
    assert not any(letter.isspace() for letter in answer)
    started.check()
    assert any("answers after" in line for line in said)


@pytest.mark.slow
def test_it_listens_on_loopback_and_logs_no_request(up: tuple[Engine, str], folder: Path) -> None:
    processes = group(record(folder)["server"])
    assert set().union(*map(listening, processes)) == {"127.0.0.1"}
    assert "POST /v1" not in up[0].log.read_text()


@pytest.mark.slow
def test_a_port_that_is_taken(
    up: tuple[Engine, str], tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    port = int(up[1].removesuffix("/v1").rpartition(":")[2])
    other = engine(tiny_llm, vllm_python, tmp_path, settings={"port": port})
    with pytest.raises(Unusable, match=rf"^run\.llm\.engine\.port {port} is not available"):
        other.start()
    other.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_it_comes_back_once_and_is_dead_the_second_time(
    up: tuple[Engine, str], folder: Path, said: list[str]
) -> None:
    started, url = up
    first = record(folder)
    os.kill(first["server"], signal.SIGKILL)
    assert until(lambda: any("being restarted" in line for line in said))
    assert until(lambda: any("answers again" in line for line in said), START_SECONDS)
    assert group(first["server"]) == []
    second = record(folder)
    assert second["port"] == first["port"]
    assert second["server"] != first["server"]
    body = {"model": started.name, "prompt": "red", "max_tokens": 2}
    assert post(url, "completions", body)["usage"]["completion_tokens"] <= 2
    started.check()
    # Not the server itself this time but the process that watches over it.
    os.kill(second["supervisor"], signal.SIGKILL)
    assert until(lambda: any("second time" in line for line in said))
    with pytest.raises(Stopped, match="died a second time"):
        started.check()
    assert until(lambda: group(second["server"]) == [])
    started.stop()
    started.stop()
    assert not (folder / RECORD).exists()
    with socket.create_server(("127.0.0.1", first["port"])):
        pass


@pytest.mark.slow
def test_it_does_not_outlive_tercet(tiny_llm: Path, vllm_python: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tiny_llm), vllm_python, str(tmp_path)]
    with subprocess.Popen(command) as parent:
        number = record(tmp_path)["server"]
        # Until the process that holds the model is there as well.
        assert until(lambda: len(group(number)) > 2, START_SECONDS)
        parent.kill()
    assert until(lambda: group(number) == [])


@pytest.mark.slow
def test_a_model_that_vllm_refuses_says_why(
    tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    started = engine(tiny_llm, vllm_python, tmp_path, max_model_len=99999)
    with pytest.raises(Unusable) as caught:
        started.start()
    assert "max_model_len (99999) is greater than" in str(caught.value)
    assert str(started.log) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert not (tmp_path / RECORD).exists()
    started.stop()
    assert started.log.is_file()


def test_a_server_that_takes_too_long_is_ended(
    tiny_llm: Path, vllm_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However late it is looked for, it has not answered yet.
    monkeypatch.setattr("tercet.models.llm.vllm.engine._page", lambda port, path: None)
    settings = EngineSettings(python=vllm_python, start_seconds=1.5)
    started = Engine(tiny_llm, LlmSettings(model=str(tiny_llm)), settings, tmp_path, print)
    with pytest.raises(Stopped, match=r"did not answer within 1\.5 s: raise run\.llm\.engine"):
        started.start()
    assert started._group is not None
    assert group(started._group) == []
    assert not (tmp_path / RECORD).exists()


def test_a_start_may_be_stopped_by_another_thread(
    tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    started = engine(tiny_llm, vllm_python, tmp_path)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(started.start)
        number = record(tmp_path)["server"]
        started.stop()
        with pytest.raises(Stopped, match="stopped while it started"):
            future.result(SECONDS)
    assert group(number) == []


def test_a_start_may_be_cancelled_by_another_thread(
    tiny_llm: Path, vllm_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for nothing, and the start ends soon whatever the server is doing."""
    monkeypatch.setattr("tercet.models.llm.vllm.engine._STOP_SECONDS", 10 * SECONDS)
    started = engine(tiny_llm, vllm_python, tmp_path)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(started.start)
        told = record(tmp_path)
        number = told["server"]
        # Nothing can end while the supervisor stands still, and an end is waited for much longer.
        os.kill(told["supervisor"], signal.SIGSTOP)
        began = time.monotonic()
        try:
            started.cancel()
            started.cancel()
            assert time.monotonic() - began < 5 * SECONDS
            assert group(number)
        finally:
            os.kill(told["supervisor"], signal.SIGCONT)
        with pytest.raises(Stopped, match="stopped while it started"):
            future.result(SECONDS)
    assert group(number) == []
    with pytest.raises(Stopped, match="vLLM was stopped"):
        started.check()
    started.stop()
    started.cancel()
    assert started.log.is_file()
    assert not (tmp_path / RECORD).exists()
    early = engine(tiny_llm, vllm_python, tmp_path / "early")
    early.cancel()
    with pytest.raises(Stopped, match="stopped while it started"):
        early.start()
    assert not (tmp_path / "early" / RECORD).exists()


def test_an_interpreter_without_vllm(tiny_llm: Path, tmp_path: Path) -> None:
    started = engine(tiny_llm, sys.executable, tmp_path)
    with pytest.raises(Unusable, match=r"^There is no vLLM in .*make vllm"):
        started.start()
    with pytest.raises(Unusable, match="where there is no interpreter"):
        engine(tiny_llm, str(tmp_path / "python"), tmp_path).start()
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unusable, match="does not run"):
        engine(tiny_llm, str(tmp_path / "file"), tmp_path).start()


def pretended_program(path: Path, code: str) -> None:
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# An interpreter that says it has vLLM's GPU build, and "serves" with nothing of it. The folder
# that it runs in may hold the file `foreign`: then it serves another model.
PRETENDED_PYTHON = """
import json, sys
if sys.argv[1] == "-c":
    print(json.dumps(["9.9.9", False, None]))
elif sys.argv[1].endswith("supervisor.py"):
    import os
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
else:
    import http.server, os
    word = lambda name: sys.argv[sys.argv.index(name) + 1]
    name = "foreign" if os.path.exists("foreign") else word("--served-model-name")
    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            if self.path == "/v1/models":
                self.wfile.write(json.dumps({"data": [{"id": name}]}).encode())
    http.server.HTTPServer(("127.0.0.1", int(word("--port"))), Pages).serve_forever()
"""
# A driver that knows two GPUs and, if the file `pids` is there, processes on them. MB in use: 300
# before anybody asked, 9000 from then on, and what `last` says from the third time on.
PRETENDED_DRIVER = """
from pathlib import Path
import sys
here = Path(sys.argv[0]).parent
query, form = sys.argv[1:]
assert form == "--format=csv,noheader,nounits"
if query == "--query-compute-apps=pid,used_memory":
    pids = here / "pids"
    listed = pids.read_text().split() if pids.exists() else []
    print("1, 77")
    for pid in listed:
        if here.joinpath("stuck").exists() or Path(f"/proc/{pid}").exists():
            print(f"{pid}, 4000")
else:
    assert query == "--query-gpu=index,uuid,memory.used"
    asked = here / "asked"
    count = len(asked.read_text()) if asked.exists() else 0
    asked.write_text("." * (count + 1))
    last = here.joinpath("last").read_text()
    print(f"0, GPU-a, {300 if count == 0 else 9000 if count < 3 else last}")
    print(f"1, GPU-b, {count * 5000}")
"""


@pytest.fixture
def pretended(
    tiny_llm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Engine, list[str]]]:
    """An engine whose server and driver are pretended, and what it says."""
    pretended_program(tmp_path / "python", PRETENDED_PYTHON)
    pretended_program(tmp_path / "nvidia-smi", PRETENDED_DRIVER)
    (tmp_path / "last").write_text("400")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    said: list[str] = []
    made = engine(tiny_llm, str(tmp_path / "python"), tmp_path / "run", said.append)
    yield made, said
    made.cancel()
    made.stop()


@pytest.mark.parametrize("comes_back", [True, False])
def test_memory_of_the_visible_gpus_is_awaited_with_a_pretended_driver_and_server(
    comes_back: bool,
    pretended: tuple[Engine, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finished run does not fail for memory that nobody of the server is left to hold."""
    started, said = pretended
    (tmp_path / "last").write_text("400" if comes_back else "9000")
    seconds = SECONDS if comes_back else 3.0
    monkeypatch.setattr("tercet.models.llm.vllm.engine._MEMORY_SECONDS", seconds)
    started.start()
    assert "vLLM 9.9.9 (GPU build) starts" in said[0]
    number = record(tmp_path / "run")["server"]
    started.stop()
    if comes_back:
        assert re.search(r"400 MB of GPU memory are in use, 300 MB were before$", said[-1])
    else:
        assert re.search(r"^9000 MB of .* though vLLM has ended, 300 MB were before", said[-1])
    assert group(number) == []
    count = len(said)
    started.stop()
    assert len(said) == count


@pytest.mark.parametrize("stuck", [False, True])
def test_memory_of_its_own_processes_is_awaited_with_a_pretended_driver_and_server(
    stuck: bool,
    pretended: tuple[Engine, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others hold meanwhile says nothing then."""
    started, said = pretended
    monkeypatch.setattr("tercet.models.llm.vllm.engine._MEMORY_SECONDS", 3.0 if stuck else SECONDS)
    (tmp_path / "last").write_text("9000")
    started.start()
    number = record(tmp_path / "run")["server"]
    (tmp_path / "pids").write_text(str(number))
    if stuck:
        (tmp_path / "stuck").touch()
        with pytest.raises(Stopped, match=rf"4000 MB .* held by its processes {number}: end"):
            started.stop()
    else:
        started.stop()
        assert said[-1].endswith("its 4000 MB of GPU memory are free")


def test_a_pretended_server_that_falls_silent_is_started_again(
    pretended: tuple[Engine, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.models.llm.vllm.engine._HEALTH_SECONDS", 0.2)
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", SECONDS)
    started, said = pretended
    started.start()
    first = record(tmp_path / "run")
    time.sleep(2)
    assert not any("died" in line for line in said)
    os.kill(first["server"], signal.SIGSTOP)
    # Only now: one that is up may be late as well, before that and behind it.
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", 4.0)
    assert until(lambda: any("being restarted" in line for line in said))
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", SECONDS)
    assert until(lambda: "vLLM answers again" in said)
    assert any("being restarted: it did not answer for 4 s" in line for line in said)
    assert group(first["server"]) == []
    started.check()
    # Of a supervisor that is killed nothing stands in the log.
    os.kill(record(tmp_path / "run")["supervisor"], signal.SIGKILL)
    assert until(lambda: any("second time" in line for line in said))
    with pytest.raises(Stopped, match=r"supervisor process was killed \(SIGKILL\)"):
        started.check()


def test_a_foreign_server_on_the_port_is_told_with_a_pretended_one(
    pretended: tuple[Engine, list[str]], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "foreign").touch()
    with pytest.raises(Unusable, match=r"^Another server .* serves foreign and not tiny: stop it"):
        pretended[0].start()
    assert not (tmp_path / "run" / RECORD).exists()


def test_a_pretended_server_that_is_too_busy_to_say_what_it_serves_is_asked_again(
    pretended: tuple[Engine, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    silences = ["/v1/models", "/v1/models"]

    answer = engine_module._answer

    def late(port: int, path: str) -> tuple[int, bytes] | None:
        if path not in silences:
            return answer(port, path)
        silences.pop()
        return None

    monkeypatch.setattr(engine_module, "_answer", late)
    pretended[0].start()
    assert silences == []


def test_a_start_that_is_cancelled_says_so_also_where_the_end_is_seen_first(
    pretended: tuple[Engine, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(self: Engine) -> Unusable:
        self.cancel()
        return Unusable("vLLM ended before it could serve.")

    monkeypatch.setattr(Engine, "_await_health", ended)
    with pytest.raises(Stopped, match="stopped while it started"):
        pretended[0].start()
