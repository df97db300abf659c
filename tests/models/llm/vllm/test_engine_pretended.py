"""An engine whose server and driver are pretended: no vLLM is needed."""

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from engines import SECONDS, engine, group, record, until
from failures import fails

from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm.engine import RECORD, Engine, gpu_memory_used

pytestmark = pytest.mark.usefixtures("patient")


def pretended_program(path: Path, code: str) -> None:
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# An interpreter that says it has vLLM's GPU build, and "serves" with nothing of it. The folder
# that it runs in may hold files: with `foreign` it serves another model, with `mute` nothing, and
# as long as `busy` is there it does not say which.
PRETENDED_PYTHON = """
import json, os, sys, time
if sys.argv[1] == "-c":
    print(json.dumps(["9.9.9", False, None]))
elif sys.argv[1].endswith("supervisor.py"):
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
elif os.path.exists("mute"):
    time.sleep(3600)
else:
    import http.server
    word = lambda name: sys.argv[sys.argv.index(name) + 1]
    name = "foreign" if os.path.exists("foreign") else word("--served-model-name")
    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/v1/models" and os.path.exists("busy"):
                os.rename("busy.txt", "busy") if os.path.exists("busy.txt") else os.remove("busy")
                return
            self.send_response(200)
            self.end_headers()
            if self.path == "/v1/models":
                self.wfile.write(json.dumps({"data": [{"id": name}]}).encode())
    http.server.HTTPServer(("127.0.0.1", int(word("--port"))), Pages).serve_forever()
"""
# A driver that knows two GPUs. MB in use: 300 before anybody asked, 9000 from then on, and what
# `last` says from the third time on.
PRETENDED_DRIVER = """
from pathlib import Path
import sys
here = Path(sys.argv[0]).parent
query, form = sys.argv[1:]
assert form == "--format=csv,noheader,nounits"
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
    lines: list[str] = []
    started = engine(tiny_llm, str(tmp_path / "python"), tmp_path / "run", lines.append)
    yield started, lines
    started.cancel()
    started.stop()


@pytest.mark.parametrize("comes_back", [True, False])
def test_memory_of_the_visible_gpus_is_awaited_with_a_pretended_driver_and_server(
    comes_back: bool,
    pretended: tuple[Engine, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finished run does not fail for memory that nobody of the server is left to hold."""
    started, lines = pretended
    (tmp_path / "last").write_text("400" if comes_back else "9000")
    seconds = SECONDS if comes_back else 3.0
    monkeypatch.setattr("tercet.models.llm.vllm.engine._MEMORY_SECONDS", seconds)
    started.start()
    number = record(tmp_path / "run")["server"]
    started.stop()
    assert "400 MB" in lines[-1] if comes_back else "9000 MB" in lines[-1]
    assert "300 MB" in lines[-1]
    assert group(number) == []


def test_a_pretended_server_that_falls_silent_is_started_again(
    pretended: tuple[Engine, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.models.llm.vllm.engine._HEALTH_SECONDS", 0.2)
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", SECONDS)
    started, lines = pretended
    started.start()
    first = record(tmp_path / "run")
    os.kill(first["server"], signal.SIGSTOP)
    # Only now: one that is up may be late as well, before that and behind it.
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", 4.0)
    assert until(lambda: any("being restarted" in line for line in lines))
    monkeypatch.setattr("tercet.models.llm.vllm.engine._SILENT_SECONDS", SECONDS)
    assert until(lambda: "vLLM answers again" in lines)
    assert group(first["server"]) == []
    started.check()
    # Of a supervisor that is killed nothing stands in the log.
    os.kill(record(tmp_path / "run")["supervisor"], signal.SIGKILL)
    assert until(lambda: any("second time" in line for line in lines))
    with fails("lost", "SIGKILL"):
        started.check()


def test_a_foreign_server_on_the_port_is_told_with_a_pretended_one(
    pretended: tuple[Engine, list[str]], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "foreign").touch()
    with fails("busy", "foreign"):
        pretended[0].start()
    assert not (tmp_path / "run" / RECORD).exists()


def behaving(model: Path, place: Path, seconds: float, *files: str) -> Engine:
    """An engine whose pretended server finds these files, and has so long to answer."""
    pretended_program(place / "python", PRETENDED_PYTHON)
    (place / "run").mkdir()
    for name in files:
        (place / "run" / name).touch()
    settings = EngineSettings(python=str(place / "python"), start_seconds=seconds)
    return Engine(model, LlmSettings(model=str(model)), settings, place / "run", print)


def test_a_pretended_server_that_is_too_busy_to_say_what_it_serves_is_asked_again(
    tiny_llm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Directly, whatever proxy the environment names.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    started = behaving(tiny_llm, tmp_path, 60.0, "busy", "busy.txt")
    try:
        started.start()
    finally:
        started.stop()
    assert not (tmp_path / "run" / "busy").exists()


def test_a_pretended_server_that_takes_too_long_is_ended(tiny_llm: Path, tmp_path: Path) -> None:
    with fails("lost", "start_seconds"):
        behaving(tiny_llm, tmp_path, 1.5, "mute").start()
    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(tmp_path / "python") in command]
    assert not (tmp_path / "run" / RECORD).exists()


TWO_GPUS = "0, GPU-aaaa, 1000\n1, GPU-bbbb, 200\n"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets nvidia-smi say this."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def says(text: str, code: int = 0) -> None:
        program = f"print({text!r}, end='')\nraise SystemExit({code})"
        pretended_program(tmp_path / "nvidia-smi", program)

    return says


@pytest.mark.parametrize(
    ("visible", "used"),
    [
        (None, 1200),
        ("0", 1000),
        ("GPU-bb", 200),
        # Parts of GPUs cannot be told apart here, so all count.
        ("MIG-1234", 1200),
    ],
)
def test_only_the_visible_ones_count(
    driver: Callable[..., None], monkeypatch: pytest.MonkeyPatch, visible: str | None, used: int
) -> None:
    driver(TWO_GPUS)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_memory_used() == used


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), (TWO_GPUS, 1), ("0, GPU-aaaa, [N/A]\n", 0), ("No GPU\n", 0)],
)
def test_a_driver_that_does_not_know_says_nothing(
    driver: Callable[..., None], text: str, code: int
) -> None:
    driver(text, code)
    assert gpu_memory_used() is None


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory_used() is None
