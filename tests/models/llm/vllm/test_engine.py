"""A real vLLM, started, asked, killed and stopped; a start takes half a minute, so few are made."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from engines import SECONDS, START_SECONDS, engine, group, record, until
from failures import fails
from transformers import AutoTokenizer

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.client import Client
from tercet.models.llm.client.exchange import Endpoint
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import Sampling
from tercet.models.llm.vllm.engine import RECORD, Engine
from tercet.models.llm.wire import Wire

pytestmark = pytest.mark.usefixtures("patient")

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["entity", "quantity"]}, "count": {"enum": [1, 2, 3]}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
CUT, WHOLE = Sampling(max_tokens=6), Sampling(max_tokens=60)
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


def listening(process: psutil.Process) -> set[str]:
    """The addresses that a process listens at; none of one that has ended meanwhile."""
    try:
        connections = process.net_connections("tcp")
    except psutil.NoSuchProcess:
        return set()
    return {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "run"


@pytest.fixture(scope="module")
def up(
    tiny_llm: Path, vllm_python: str, folder: Path, lines: list[str]
) -> Iterator[tuple[Engine, str]]:
    """One engine for the tests below, in the order in which they stand."""
    started = engine(tiny_llm, vllm_python, folder, lines.append, max_model_len=256)
    try:
        yield started, started.start()
    finally:
        started.stop()


@pytest.mark.slow
def test_it_listens_on_loopback_and_logs_no_request(up: tuple[Engine, str], folder: Path) -> None:
    processes = group(record(folder)["server"])
    assert set().union(*map(listening, processes)) == {"127.0.0.1"}
    assert "POST /v1" not in up[0].log.read_text()


def asked(endpoint: Endpoint, wire: Wire, requests: list[Request]) -> list[Answer]:
    recorded = []
    # A busy machine is slow, and no fault of the endpoint's.
    settings = AskingSettings(timeout=3600, patience=3600)
    client = Client(
        [endpoint], wire, settings, "tiny", lambda request, answer: recorded.append(answer)
    )
    try:
        answers = list(client.ask(iter(requests)))
    finally:
        client.close()
    assert answers == recorded
    return sorted(answers, key=lambda answer: answer.place)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chat", "ids", "base"])
def test_every_way_of_asking_is_understood(
    up: tuple[Engine, str], tiny_llm: Path, way: str
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_llm, local_files_only=True)

    def render(requests: Sequence[Request]) -> list[list[int]]:
        ids: list[list[int]] = tokenizer([request.prompt for request in requests])["input_ids"]
        return ids

    wire = {
        "chat": Wire("chat", template_kwargs={"enable_thinking": False}),
        "ids": Wire("completions", render=render),
        "base": Wire("completions"),
    }[way]
    free = [Request(i, f"the row {i}", CUT, i) for i in range(100)]
    formed = [Request(100 + i, f"the row {i}", WHOLE, i, SCHEMA) for i in range(40)]
    too_long = Request(140, "row " * 1000, CUT, 0)
    endpoint = Endpoint(up[1], up[0].name)
    *answers, long_one = asked(endpoint, wire, [*free, *formed, too_long])
    assert [answer.place for answer in answers] == list(range(140))
    # A model of random weights says nothing now and then.
    texts = [answer for answer in answers if answer.error is None]
    assert len(texts) > 100
    # What was blank and asked again spent its tokens too.
    tokens = sum(answer.n_tokens for answer in answers[:100])
    assert 0 < tokens <= 6 * sum(answer.attempts for answer in answers[:100])
    assert {answer.finish_reason for answer in texts} <= {"stop", "length"}
    for answer in answers[100:]:
        if answer.finish_reason == "stop":
            # A random model has nothing against white space: it is the server that writes none.
            assert not any(letter.isspace() for letter in answer.raw)
            assert json.loads(answer.raw)["kind"] in ("entity", "quantity")
    assert sum(answer.finish_reason == "stop" for answer in answers[100:]) > 30
    assert long_one.finish_reason == "failed"
    assert long_one.error


@pytest.mark.slow
def test_a_name_or_a_schema_that_it_does_not_know_is_unusable(up: tuple[Engine, str]) -> None:
    with pytest.raises(Unusable, match="another"):
        asked(Endpoint(up[1], "another"), Wire("chat"), [Request(0, "row", CUT, 0)])
    requests = [Request(i, "row", CUT, i, {"type": "nonsense"}) for i in range(20)]
    with pytest.raises(Unusable, match="nonsense"):
        asked(Endpoint(up[1], up[0].name), Wire("completions"), requests)


@pytest.mark.slow
def test_a_port_that_is_taken(
    up: tuple[Engine, str], tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    port = int(up[1].removesuffix("/v1").rpartition(":")[2])
    other = engine(tiny_llm, vllm_python, tmp_path, settings={"port": port})
    with pytest.raises(Unusable, match=rf"run\.llm\.engine\.port.*{port}"):
        other.start()
    other.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_it_comes_back_once_and_is_dead_the_second_time(
    up: tuple[Engine, str], folder: Path, lines: list[str]
) -> None:
    started, url = up
    first = record(folder)
    os.kill(first["server"], signal.SIGKILL)
    assert until(lambda: any("being restarted" in line for line in lines))
    assert until(lambda: any("answers again" in line for line in lines), START_SECONDS)
    assert group(first["server"]) == []
    second = record(folder)
    assert second["port"] == first["port"]
    assert second["server"] != first["server"]
    body = {"model": started.name, "prompt": "red", "max_tokens": 2}
    assert post(url, "completions", body)["usage"]["completion_tokens"] <= 2
    started.check()
    # Not the server itself this time but the process that watches over it.
    os.kill(second["supervisor"], signal.SIGKILL)
    assert until(lambda: any("second time" in line for line in lines))
    with pytest.raises(Stopped):
        started.check()
    assert until(lambda: group(second["server"]) == [])
    started.stop()
    started.stop()
    assert not (folder / RECORD).exists()


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
    assert "max_model_len (99999)" in str(caught.value)
    assert str(started.log) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert not (tmp_path / RECORD).exists()
    started.stop()
    assert started.log.is_file()


def test_a_start_may_be_stopped_by_another_thread(
    tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    started = engine(tiny_llm, vllm_python, tmp_path)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(started.start)
        number = record(tmp_path)["server"]
        started.stop()
        with pytest.raises(Stopped):
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
        processes = record(tmp_path)
        number = processes["server"]
        # Nothing can end while the supervisor stands still, and an end is waited for much longer.
        os.kill(processes["supervisor"], signal.SIGSTOP)
        began = time.monotonic()
        try:
            started.cancel()
            started.cancel()
            assert time.monotonic() - began < 5 * SECONDS
            assert group(number)
        finally:
            os.kill(processes["supervisor"], signal.SIGCONT)
        with pytest.raises(Stopped):
            future.result(SECONDS)
    assert group(number) == []
    with pytest.raises(Stopped):
        started.check()
    started.stop()
    started.cancel()
    assert not (tmp_path / RECORD).exists()
    early = engine(tiny_llm, vllm_python, tmp_path / "early")
    early.cancel()
    with pytest.raises(Stopped):
        early.start()


def test_an_interpreter_without_vllm(tiny_llm: Path, tmp_path: Path) -> None:
    started = engine(tiny_llm, sys.executable, tmp_path)
    with fails("missing_package"):
        started.start()
    (tmp_path / "file").write_text("x")
    for name in ("python", "file"):
        with pytest.raises(Unusable):
            engine(tiny_llm, str(tmp_path / name), tmp_path).start()
