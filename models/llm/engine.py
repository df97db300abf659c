"""A vLLM server of our own: started, watched, started once again, ended.

It is a child process, because memory of a GPU is given back for certain only when the process that
holds it ends. Between it and Tercet stands the warden, which ends it when Tercet is killed.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tercet.models.llm import gpu_memory, warden
from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.server_log import telling_lines
from tercet.models.llm.settings import EngineSettings, LlmSettings
from tercet.models.llm.vllm_build import VllmBuild, find
from tercet.models.llm.vllm_command import HOST, command, environment, served_name

LOG = "vllm.log"
RECORD = "vllm.json"
# The warden gives the server its own grace, and then some time for what is left.
_STOP_SECONDS = 2 * warden.GRACE_SECONDS + 5
_MEMORY_SECONDS = 60.0
_LOOK_SECONDS = 0.25


class Engine:
    """One server of one model, on loopback.

    Its log is `vllm.log` in the folder; `vllm.json` there says, while it is up, which processes it
    is made of. A server that dies is started once again on the same port, by itself: whoever asks
    meanwhile finds nobody there and had better wait. `check` tells when it is dead for good.
    """

    def __init__(
        self,
        model: Path,
        llm: LlmSettings,
        settings: EngineSettings,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        """Starts nothing yet.

        model: directory of the model's files. folder: for the log and the record; no other engine
        uses it at the same time. say: takes one line of news.
        """
        self.name = served_name(llm)
        self._model = model.expanduser().absolute()
        self._llm, self._settings = llm, settings
        self._folder, self._say = folder.absolute(), say
        self._port = 0
        self._build: VllmBuild | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._warden: subprocess.Popen[bytes] | None = None
        self._group: int | None = None
        self._watcher: threading.Thread | None = None
        self._dead: str | None = None
        self._log_start = 0
        self._used_before: int | None = None

    @property
    def log(self) -> Path:
        return self._folder / LOG

    def start(self) -> str:
        """Its base URL, up to /v1, once it answers.

        Raises: Unusable when it cannot start (no vLLM, a taken port, a model that vLLM refuses);
        Stopped when it does not answer in time.
        """
        self._build = find(self._settings.python)
        self._port = _free_port(self._settings.port)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._used_before = gpu_memory.used()
        began = time.monotonic()
        self._say(f"{self._build} starts on port {self._port}; its log: {self.log}")
        try:
            self._launch()
            fault = self._await_health()
        except BaseException:
            self._end()
            raise
        if fault is not None:
            ended = self._warden is not None and self._warden.poll() is not None
            self._end()
            raise (Unusable if ended else Stopped)(fault)
        if self._stopping.is_set():
            raise Stopped("vLLM was stopped while it started.")
        self._say(f"vLLM answers after {time.monotonic() - began:.0f} s")
        self._watcher = threading.Thread(target=self._watch, name="vllm-watch", daemon=True)
        self._watcher.start()
        return f"http://{HOST}:{self._port}/v1"

    def check(self) -> None:
        """Raises: Stopped when the server is dead and is not started again."""
        if self._dead is not None:
            raise Stopped(self._dead)

    def stop(self) -> None:
        """Ends the server and all its processes, and sees that the GPU's memory is free again.

        May be called more than once. Raises: Stopped when the memory does not come back.
        """
        if self._warden is None:
            return
        began = time.monotonic()
        held = gpu_memory.used() if self._used_before is not None else None
        self._end()
        said = f"vLLM ended in {time.monotonic() - began:.1f} s"
        before, self._used_before = self._used_before, None
        if before is None:
            self._say(said)
            return
        now = gpu_memory.await_back(before, _MEMORY_SECONDS)
        if now is not None and now > before + gpu_memory.TOLERANCE_MB:
            raise Stopped(
                f"{now} MB of the GPU are in use {_MEMORY_SECONDS:.0f} s after vLLM ended, "
                f"{before} MB were before it started: see with nvidia-smi who holds them, end "
                "that, and run again."
            )
        self._say(
            f"{said}; memory of the GPU in use: {held} MB, after {time.monotonic() - began:.1f} s "
            f"{now} MB ({before} MB before it started)"
        )

    def _launch(self) -> None:
        """Starts the warden, and by it the server, unless the engine is being stopped."""
        assert self._build is not None
        words = command(self._build, self._model, self._llm, self._settings, self._port)
        with self._lock, self.log.open("ab") as log:
            if self._stopping.is_set():
                return
            self._log_start = log.tell()
            # A session of its own, so that Ctrl-C at a terminal and a kill of Tercet's whole
            # group pass the warden by.
            self._warden = subprocess.Popen(
                [str(self._build.python), str(Path(warden.__file__).absolute()), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=environment(self._build, os.environ),
                start_new_session=True,
            )
            assert self._warden.stdout is not None
            told = self._warden.stdout.readline()
            self._group = int(told) if told.strip() else None
            record = {
                "server": self._group,
                "warden": self._warden.pid,
                "port": self._port,
                "model": self.name,
                "vllm": self._build.version,
                "command": words,
            }
            (self._folder / RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")

    def _await_health(self) -> str | None:
        """None once the server answers, or is being stopped; else in a sentence why it does not."""
        process = self._warden
        seconds = self._settings.start_seconds
        deadline = time.monotonic() + seconds
        while not self._stopping.is_set():
            if process is None or process.poll() is not None:
                return (
                    f"vLLM ended before it could serve {self._model}: {self._why()} "
                    f"(its log: {self.log})."
                )
            if _healthy(self._port):
                return None
            if time.monotonic() > deadline:
                return (
                    f"vLLM did not answer within {seconds:g} s: raise "
                    f"run.llm.engine.start_seconds, or see what it waits for in {self.log}."
                )
            self._stopping.wait(_LOOK_SECONDS)
        return None

    def _watch(self) -> None:
        """Starts the server once again when it dies; then says that it is dead."""
        for again in (True, False):
            process = self._warden
            if process is None:
                return
            process.wait()
            if self._stopping.is_set():
                return
            self._let_go(process)
            if not again:
                self._dead = (
                    f"vLLM died a second time: {self._why()} (its log: {self.log}); what was "
                    "answered is safe, and the same command goes on from there."
                )
                self._say(self._dead)
                return
            self._say(f"vLLM died and is started again: {self._why()}")
            fault = self._restart()
            if fault is not None:
                self._dead = f"vLLM died and did not come back: {fault}"
                self._say(self._dead)
                return

    def _restart(self) -> str | None:
        """None once the server is back, else why not."""
        try:
            self._launch()
            fault = self._await_health()
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}."
        if fault is None and not self._stopping.is_set():
            self._say("vLLM answers again")
        return fault

    def _why(self) -> str:
        said = telling_lines(self.log, self._log_start)
        if said:
            return " / ".join(said)
        code = self._warden.poll() if self._warden is not None else None
        return f"it said nothing (exit code {code})"

    def _end(self) -> None:
        """Ends warden and server, and waits for both; nothing is said."""
        with self._lock:
            self._stopping.set()
            process = self._warden
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._let_go(process)
        if self._watcher is not None:
            self._watcher.join()
        self._warden = None
        (self._folder / RECORD).unlink(missing_ok=True)

    def _let_go(self, process: "subprocess.Popen[bytes]") -> None:
        """Of a warden that has ended: closes its pipes, and does what it could not do if killed."""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if process.returncode is not None and process.returncode < 0 and self._group is not None:
            deadline = time.monotonic() + warden.GRACE_SECONDS
            with contextlib.suppress(ProcessLookupError):
                while time.monotonic() < deadline:
                    os.killpg(self._group, signal.SIGKILL)
                    time.sleep(0.05)
            # The number may be somebody else's from now on.
            self._group = None


def _free_port(wanted: int) -> int:
    """The port itself if it can be had, of 0 any free one. Raises: Unusable when it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As vLLM does: a port whose last connections are still timing out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise Unusable(
                f"run.llm.engine.port {wanted} cannot be had ({error.strerror}): name another, "
                "or 0 for any free one."
            ) from None
        return int(probe.getsockname()[1])


def _healthy(port: int) -> bool:
    """Whether the server's health page says yes, asked directly (no proxy)."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
