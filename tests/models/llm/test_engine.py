"""A real vLLM, started, asked, killed and stopped. Each start takes half a minute: few are made."""

import http.client
import json
import os
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

from tercet.models.llm.engine import RECORD, Engine
from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.settings import EngineSettings, LlmSettings

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["entity", "quantity"]}, "count": {"enum": [1, 2, 3]}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
PARENT = """
import sys, time
from pathlib import Path
from tercet.models.llm.engine import Engine
from tercet.models.llm.settings import EngineSettings, LlmSettings
model, python, folder = sys.argv[1:]
Engine(
    Path(model), LlmSettings(model=model), EngineSettings(python=python), Path(folder), print
).start()
"""


def engine(
    model: Path, python: str | None, folder: Path, say: Callable[[str], None] = print, **llm: Any
) -> Engine:
    settings = EngineSettings(python=python, start_seconds=300, **llm.pop("settings", {}))
    return Engine(model, LlmSettings(model=str(model), **llm), settings, folder, say)


def post(url: str, path: str, body: dict[str, Any]) -> Any:
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
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
    assert until(path.exists, 60)
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


def until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


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
    listening = {
        connection.laddr.ip
        for process in group(record(folder)["server"])
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    assert "POST /v1" not in up[0].log.read_text()


@pytest.mark.slow
def test_a_port_that_is_taken(
    up: tuple[Engine, str], tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    port = int(up[1].removesuffix("/v1").rpartition(":")[2])
    other = engine(tiny_llm, vllm_python, tmp_path, settings={"port": port})
    with pytest.raises(Unusable, match=rf"^run\.llm\.engine\.port {port} cannot be had"):
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
    assert until(lambda: any("started again" in line for line in said), 30)
    assert until(lambda: any("answers again" in line for line in said), 300)
    assert group(first["server"]) == []
    second = record(folder)
    assert second["port"] == first["port"]
    assert second["server"] != first["server"]
    body = {"model": started.name, "prompt": "red", "max_tokens": 2}
    assert post(url, "completions", body)["usage"]["completion_tokens"] <= 2
    started.check()
    # Not the server itself this time but the process that watches over it.
    os.kill(second["warden"], signal.SIGKILL)
    assert until(lambda: any("second time" in line for line in said), 30)
    with pytest.raises(Stopped, match="died a second time"):
        started.check()
    assert until(lambda: group(second["server"]) == [], 10)
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
        assert until(lambda: len(group(number)) > 2, 120)
        parent.kill()
    assert until(lambda: group(number) == [], 20)


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


def test_a_server_that_takes_too_long_is_ended(
    tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
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
            future.result(30)
    assert group(number) == []


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


# An interpreter that says it has vLLM's GPU build, and "serves" with nothing of it.
PRETENDED_PYTHON = """
import json, sys
if sys.argv[1] == "-c":
    print(json.dumps(["9.9.9", False]))
elif sys.argv[1].endswith("warden.py"):
    import os
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
else:
    import http.server
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
    port = int(sys.argv[sys.argv.index("--port") + 1])
    http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


@pytest.mark.parametrize("comes_back", [True, False])
def test_memory_is_awaited_with_a_pretended_driver_and_server(
    comes_back: bool, tiny_llm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver says 300 MB, 9000 once it was asked again, and 400 from the fourth time on."""
    pretended_program(tmp_path / "python", PRETENDED_PYTHON)
    count = tmp_path / "count"
    count.write_text("")
    last = 400 if comes_back else 9000
    pretended_program(
        tmp_path / "nvidia-smi",
        f"from pathlib import Path\nimport sys\ncount = Path({str(count)!r})\n"
        "assert sys.argv[1:] == ['--query-gpu=memory.used', '--format=csv,noheader,nounits']\n"
        "count.write_text(count.read_text() + '.')\nasked = len(count.read_text())\n"
        f"print(300 if asked == 1 else 9000 if asked < 4 else {last})\nprint(0)\n",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("tercet.models.llm.engine._MEMORY_SECONDS", 3.0)
    said: list[str] = []
    started = engine(tiny_llm, str(tmp_path / "python"), tmp_path / "run", said.append)
    started.start()
    assert "vLLM 9.9.9 (GPU build) starts" in said[0]
    number = record(tmp_path / "run")["server"]
    if comes_back:
        started.stop()
        assert "memory of the GPU in use: 9000 MB, after" in said[-1]
        assert "400 MB (300 MB before it started)" in said[-1]
    else:
        with pytest.raises(Stopped, match=r"^9000 MB of the GPU are in use .* 300 MB were before"):
            started.stop()
    assert group(number) == []
    started.stop()
