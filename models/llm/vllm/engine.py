"""Starts, monitors, restarts once and ends Tercet's own vLLM server.

The server is a child process, because GPU memory is reliably freed only when the process that holds
it ends. A supervisor process between Tercet and the server ends the server if Tercet is killed.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import httpx

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.run_settings import EngineSettings, plain_option
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm import supervisor
from tercet.models.llm.vllm.build import VllmBuild, fault, find, is_vaegpt
from tercet.models.llm.vllm.log import cut, telling_lines

LOG = "vllm.log"
RECORD = "vllm.json"
# The supervisor's grace period for the server, plus time to kill the rest.
_STOP_SECONDS = supervisor.GRACE_SECONDS + supervisor.KILL_SECONDS + 5
_MEMORY_SECONDS, _MEMORY_LOOK_SECONDS = 60.0, 0.5
_LOOK_SECONDS = 0.25
# Interval of health checks of a running server, and the silence after which it is ended: a busy
# server may be slow, but not that slow.
_HEALTH_SECONDS = 10.0
_SILENT_SECONDS = 90.0


class Engine:
    """A vLLM server of one model, on loopback.

    The folder has the server's log, `vllm.log`, and while the server runs `vllm.json` with its
    processes. A server that dies is restarted once on the same port; until then nothing answers
    there, and callers should wait. `check` raises once the server is finally dead.
    """

    def __init__(
        self,
        model: Path,
        llm: LlmSettings,
        settings: EngineSettings,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        """Does not start the server.

        model: directory of the model's files. folder: for the log and the record, used by no other
        engine at the same time. say: called with one-line messages.
        """
        self.name = served_name(llm)
        self._model = model.expanduser().absolute()
        self._llm, self._settings = llm, settings
        self._folder, self._say = folder.absolute(), say
        self._port = 0
        self._build: VllmBuild | None = None
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._stopping = threading.Event()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._group: int | None = None
        self._watcher: threading.Thread | None = None
        self._dead: str | None = None
        self._log_start = 0
        self._used_before: int | None = None

    @property
    def log(self) -> Path:
        return self._folder / LOG

    def start(self) -> str:
        """Starts the server; returns its base URL, up to /v1, once it answers.

        Raises: Unusable if it cannot start (no vLLM, a port in use, a model that vLLM refuses);
            Stopped if it does not answer in time, or was stopped or cancelled meanwhile.
        """
        self._build = find(self._settings.python)
        self._port = _free_port(self._settings.port)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._used_before = None if self._build.cpu else gpu_memory_used()
        began = time.monotonic()
        self._say(f"{self._build} starts on port {self._port}; its log: {self.log}")
        try:
            self._launch()
            fault = self._await_health()
        except BaseException:
            self._end()
            raise
        if self._stopping.is_set():
            # Tercet ended the server, whatever the error looks like.
            fault = Stopped("lost", "vLLM was stopped while it started.")
        if fault is not None:
            self._end()
            raise fault
        self._say(f"vLLM answers after {time.monotonic() - began:.0f} s")
        self._watcher = threading.Thread(target=self._watch, name="vllm-watch", daemon=True)
        self._watcher.start()
        return f"http://{HOST}:{self._port}/v1"

    def check(self) -> None:
        """Raises Stopped if the server is dead and will not be restarted."""
        if self._dead is not None:
            raise Stopped("lost", self._dead)

    def cancel(self) -> None:
        """Kills the server without waiting. If another thread is in `start`, that call raises.

        May be called at any time and repeatedly; `stop` must follow.
        """
        self._stopping.set()
        self._dead = self._dead or "vLLM was stopped."
        process = self._supervisor
        if process is not None and process.stdin is not None:
            process.stdin.close()

    def stop(self) -> None:
        """Ends the server with all its processes, and waits until the GPU memory is free again.

        The log is kept. May be called repeatedly.
        """
        if self._supervisor is None:
            return
        began = time.monotonic()
        self._end()
        self._say(f"vLLM ended in {time.monotonic() - began:.1f} s")
        before, self._used_before = self._used_before, None
        if before is not None:
            self._await_memory(before)

    def _await_memory(self, before: int) -> None:
        """Waits until about `before` MB of GPU memory are in use, and reports the result."""
        began, used = time.monotonic(), gpu_memory_used() or 0
        while used > before + TOLERANCE_MB and time.monotonic() - began < _MEMORY_SECONDS:
            time.sleep(_MEMORY_LOOK_SECONDS)
            used = gpu_memory_used() or 0
        news = f"{used} MB of GPU memory are in use, {before} MB were before it started"
        if used > before + TOLERANCE_MB:
            # Most likely another program's memory, since the server's processes have ended.
            news += ": nvidia-smi shows who holds them"
        self._say(f"after {time.monotonic() - began:.1f} s {news}")

    def _launch(self) -> None:
        """Starts the supervisor, which starts the server; not while the engine is being stopped."""
        assert self._build is not None
        words = command(self._build, self._model, self._llm, self._settings, self._port)
        with self._lock, self.log.open("ab") as log:
            if self._stopping.is_set():
                return
            self._log_start = log.tell()
            # A new session, so that neither Ctrl-C nor a kill of Tercet's process group reaches the
            # supervisor.
            self._supervisor = subprocess.Popen(
                [str(self._build.python), str(Path(supervisor.__file__).absolute()), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=environment(self._build, os.environ),
                start_new_session=True,
            )
            assert self._supervisor.stdout is not None
            group = self._supervisor.stdout.readline()
            self._group = int(group) if group.strip() else None
            record = {
                "server": self._group,
                "supervisor": self._supervisor.pid,
                "port": self._port,
                "model": self.name,
                "vllm": self._build.version,
                "command": words,
            }
            # Replaced atomically, since another process may be reading it.
            aside = self._folder / f".{RECORD}"
            aside.write_text(json.dumps(record, indent=2), encoding="utf-8")
            aside.replace(self._folder / RECORD)

    def _await_health(self) -> Unusable | Stopped | None:
        """Waits for the server; None once it answers or is being stopped, else the error."""
        process = self._supervisor
        seconds = self._settings.start_seconds
        deadline = time.monotonic() + seconds
        while not self._stopping.is_set():
            if process is None or process.poll() is not None:
                return Unusable(
                    "lost",
                    f"vLLM ended before it could serve {self._model}: {self._why()} "
                    f"(its log: {self.log}).",
                )
            # A server that is too busy to list its models is asked again.
            if _is_healthy(self._port) and (listed := _page(self._port, "/v1/models")) is not None:
                foreign = self._foreign(listed.content)
                if foreign is None or process.poll() is None:
                    return foreign
            if time.monotonic() > deadline:
                return Stopped(
                    "lost",
                    f"vLLM did not answer within {seconds:g} s: raise "
                    f"run.llm.engine.start_seconds, or see what it waits for in {self.log}.",
                )
            self._stopping.wait(_LOOK_SECONDS)
        return None

    def _foreign(self, listed: bytes) -> Unusable | None:
        """The error if another server answers on the port. listed: its list of models."""
        try:
            names = [model["id"] for model in json.loads(listed)["data"]]
        except (ValueError, KeyError, TypeError):
            names = []
        if self.name in names or self._stopping.is_set():
            return None
        return Unusable(
            "busy",
            f"Another server answers on port {self._port}, which serves "
            f"{', '.join(map(str, names)) or 'no model'} and not {self.name}: stop it, or name "
            "another run.llm.engine.port.",
        )

    def _watch(self) -> None:
        """Restarts the server when it dies for the first time; reports its end the second time."""
        for again in (True, False):
            process = self._supervisor
            if process is None:
                return
            silent = self._await_end(process)
            if self._stopping.is_set():
                return
            self._let_go(process)
            why = silent or self._why()
            if not again:
                self._dead = (
                    f"vLLM died a second time: {why} (its log: {self.log}); all "
                    "answers are safe, and the same command continues from there."
                )
                self._say(self._dead)
                return
            self._say(f"vLLM died and is being restarted: {why}")
            try:
                self._launch()
                fault: object = self._await_health()
            except (OSError, ValueError) as error:
                fault = f"{type(error).__name__}: {error}."
            if fault is None and not self._stopping.is_set():
                self._say("vLLM answers again")
            elif fault is not None:
                self._dead = f"vLLM died and did not come back: {fault}"
                self._say(self._dead)
                return

    def _await_end(self, process: "subprocess.Popen[bytes]") -> str | None:
        """Waits until the server ends; ends a server that has not answered for long.

        Returns the reason if it did not answer, None if it ended by itself.
        """
        heard = time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_HEALTH_SECONDS)
                return None
            if cut(self.log):
                self._log_start = 0
            if _is_healthy(self._port):
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENT_SECONDS and not self._stopping.is_set():
                _dismiss(process, in_haste=True)
                return f"it did not answer for {_SILENT_SECONDS:g} s"

    def _why(self) -> str:
        code = self._supervisor.poll() if self._supervisor is not None else None
        if code is not None and code < 0:
            return f"its supervisor process was killed ({_signal(-code)})"
        lines = " / ".join(telling_lines(self.log, self._log_start))
        if code is not None and code > 128:
            # The supervisor returns 128 + n for signal n, like a shell.
            return f"{lines or 'it was killed'} ({_signal(code - 128)})"
        return lines or f"it said nothing (exit code {code})"

    def _end(self) -> None:
        """Ends supervisor and server, and waits for both, without a message."""
        with self._lock:
            # A server that never answered, or was cancelled, needs no grace period.
            in_haste = self._stopping.is_set() or self._watcher is None
            self._stopping.set()
        with self._ending:
            process = self._supervisor
            if process is None:
                return
            _dismiss(process, in_haste)
            self._let_go(process)
            if self._watcher is not None:
                self._watcher.join()
            self._supervisor = None
            (self._folder / RECORD).unlink(missing_ok=True)

    def _let_go(self, process: "subprocess.Popen[bytes]") -> None:
        """Closes the pipes of a supervisor that has ended; if it was killed, kills the server."""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        group = self._group
        if process.returncode is not None and process.returncode < 0 and group is not None:
            deadline = time.monotonic() + supervisor.KILL_SECONDS
            with contextlib.suppress(ProcessLookupError):
                while time.monotonic() < deadline:
                    os.killpg(group, signal.SIGKILL)
                    time.sleep(0.05)
            # From now on the number may belong to another process group.
            self._group = None


def _dismiss(process: "subprocess.Popen[bytes]", in_haste: bool) -> None:
    """Makes a supervisor end its server, and waits for both."""
    assert process.stdin is not None
    if in_haste:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {number + 128}"


def _free_port(port: int) -> int:
    """The port if it is free, or any free one for 0. Raises Unusable if it is in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Like vLLM: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Unusable(
                "busy",
                f"run.llm.engine.port {port} is not available ({error.strerror}): name another, "
                "or 0 for any free one.",
            ) from None
        return int(probe.getsockname()[1])


def _page(port: int, path: str) -> httpx.Response | None:
    """The server's response, without a proxy; None if there is none."""
    url = f"http://{HOST}:{port}{path}"
    try:
        # `verify=False` saves reading the certificates for each request.
        return httpx.get(url, timeout=5.0, trust_env=False, verify=False)
    except httpx.HTTPError:
        return None


def _is_healthy(port: int) -> bool:
    answer = _page(port, "/health")
    return answer is not None and answer.is_success


# GPU memory that the driver keeps, or that other programs may have taken meanwhile.
TOLERANCE_MB = 512
# Timeout of nvidia-smi.
_ANSWER_SECONDS = 20.0


def gpu_memory_used() -> int | None:
    """GPU memory in use, in MB, on the GPUs in CUDA_VISIBLE_DEVICES, or on all without it.

    All GPUs count too if the variable names MIG instances. None if no GPU reports its memory.
    """
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,uuid,memory.used", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
    rows = [row for row in rows if len(row) == 3]
    device_names = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    visible = [
        row
        for row in rows
        if row[0] in device_names
        or any(word.startswith("GPU-") and row[1].startswith(word) for word in device_names)
    ]
    try:
        return sum(int(row[2]) for row in visible or rows) if rows else None
    except ValueError:
        return None


HOST = "127.0.0.1"
# Ranks that vLLM accepts as its maximum.
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_Value: TypeAlias = str | int | float | bool


def served_name(llm: LlmSettings) -> str:
    """The model's name in requests: the last part of its path, with that of the adapter."""
    name = _plain(llm.model or "model")
    return name if llm.adapter is None else f"{name}+{_plain(llm.adapter)}"


def resolved_dtype(llm: LlmSettings, build: VllmBuild) -> str:
    """The precision for this build: `auto` is float32 on a CPU, else vLLM's choice."""
    return "float32" if build.cpu and llm.dtype == "auto" else llm.dtype


def command(
    build: VllmBuild, model: Path, llm: LlmSettings, settings: EngineSettings, port: int
) -> list[str]:
    """The command line of a server of this model on this port. Raises Unusable."""
    noisy = is_vaegpt(model)
    if noisy and (lacks := fault(build.plugin, build.python)):
        raise Unusable(
            "missing_package",
            f"The generator in {model} is a VAEGPT, and {build.python} has {lacks}, or take "
            "backend: transformers.",
        )
    options: dict[str, _Value] = {
        "dtype": resolved_dtype(llm, build),
        "tensor-parallel-size": settings.tensor_parallel,
        "data-parallel-size": settings.data_parallel,
        "max-num-seqs": settings.max_num_seqs,
        # VAEGPT: a cached prompt would give all its generations the same noise.
        "enable-prefix-caching": settings.prefix_caching and not noisy,
        # The recipe defines the sampling; the model's own defaults must not be added.
        "generation-config": "vllm",
        # Models may write white space between two fields endlessly.
        "structured-outputs-config": json.dumps(
            {"backend": "xgrammar", "disable_any_whitespace": True}
        ),
        "disable-uvicorn-access-log": True,
    }
    if build.cpu:
        options["enforce-eager"] = True
    else:
        options["gpu-memory-utilization"] = settings.gpu_memory
    if llm.quantization is not None:
        options["quantization"] = llm.quantization
    if llm.max_model_len is not None:
        options["max-model-len"] = llm.max_model_len
    model_name = _plain(llm.model or "model")
    if llm.adapter is not None:
        folder = Path(llm.adapter).expanduser().absolute()
        options["enable-lora"] = True
        options["lora-modules"] = f"{served_name(llm)}={folder}"
        options["max-lora-rank"] = _rank(folder)
    for name, value in settings.options.items():
        options[plain_option(name)] = value
    words = [str(build.python), "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(model), "--served-model-name", model_name]
    words += ["--host", HOST, "--port", str(port)]
    for name, value in options.items():
        words += _words(name, value)
    return words


def environment(build: VllmBuild, inherited: Mapping[str, str]) -> dict[str, str]:
    """The server's environment variables: offline and without usage statistics."""
    variables = {
        **inherited,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_COLOR": "0",
        "PYTHONUNBUFFERED": "1",
    }
    # The server's processes communicate on this machine only.
    variables.setdefault("VLLM_HOST_IP", HOST)
    # A key for another server would make this one refuse Tercet's requests.
    variables.pop("VLLM_API_KEY", None)
    if build.cpu:
        # In GiB; by default vLLM takes half of the machine's memory.
        variables.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return variables


def _words(name: str, value: _Value) -> list[str]:
    """An option on the command line: `--name=value`, or `--name` and `--no-name` for booleans."""
    if value is True:
        return [f"--{name}"]
    if value is False:
        return [f"--no-{name}"]
    # One word, since a separate value that begins with a dash would be read as an option.
    return [f"--{name}={value}"]


def _plain(name: str) -> str:
    """The last part of a path or hub name, with special characters replaced by hyphens."""
    last = Path(name).name or "model"
    return re.sub(r"[^A-Za-z0-9._-]", "-", last)


def _rank(adapter: Path) -> int:
    """The smallest rank of vLLM that allows the adapter's. Raises Unusable without an adapter."""
    try:
        rank = int(json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    except OSError:
        raise Unusable(
            "missing_file",
            f"llm.adapter: {adapter} holds no LoRA adapter (adapter_config.json is missing).",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Unusable(
            "unreadable", f"llm.adapter: adapter_config.json in {adapter} names no rank `r`."
        ) from None
    fitting = [allowed for allowed in _LORA_RANKS if allowed >= rank]
    if not fitting:
        raise Unusable(
            "bad_value", f"llm.adapter: its rank {rank} is above vLLM's highest, {_LORA_RANKS[-1]}."
        )
    return fitting[0]
