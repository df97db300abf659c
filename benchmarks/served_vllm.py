"""A vLLM server of a benchmark's model, and one request to it."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLING: dict[str, float | int] = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 48}
ENGINE: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 512,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 4096,
    "enable_prefix_caching": True,
    "enforce_eager": True,
}
WARM_UP = "A sentence to begin with."
START_SECONDS = 300.0
# Nothing is fetched and nothing told to anybody; GiB of vLLM's cache where there is no GPU.
ENVIRONMENT = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "2"),
}


@dataclass(frozen=True)
class Trial:
    """What is the same for all systems. folder: a directory that goes when all is done."""

    name: str
    model: Path
    parameters: int
    texts: Sequence[str]
    prompts: Sequence[str]
    folder: Path


@contextmanager
def served(python: str, trial: Trial) -> Iterator[str]:
    """A vLLM server of the model; its address, up to /v1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(trial.model)]
    words += ["--served-model-name", trial.name, "--host", "127.0.0.1", "--port", str(port)]
    words += ["--generation-config", "vllm", "--disable-uvicorn-access-log"]
    for key, value in ENGINE.items():
        words += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    log = trial.folder / "server.log"
    # Its prefix cache can be emptied in development mode alone.
    environment = {**ENVIRONMENT, "VLLM_SERVER_DEV_MODE": "1"}
    with log.open("w", encoding="utf-8") as file:
        server = subprocess.Popen(
            words, stdout=file, stderr=file, env=environment, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"vLLM's server does not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def prepare(url: str, name: str) -> None:
    """One warm-up request, then an empty prefix cache."""
    asked = {"model": name, "prompt": WARM_UP, **SAMPLING}
    _post(f"{url}/completions", asked)
    if not json.loads(_post(f"{url.removesuffix('/v1')}/reset_prefix_cache", None))["success"]:
        raise SystemExit("vLLM's server does not empty its prefix cache: it is still busy.")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _post(address: str, body: dict[str, Any] | None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
        return bytes(answer.read())
