"""Engines that tests start, and what is left of them."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm.engine import RECORD, Engine

# Longer than anything takes where nobody waits in vain, and than any start of vLLM.
SECONDS, START_SECONDS = 300.0, 3600.0


def engine(
    model: Path, python: str | None, folder: Path, say: Callable[[str], None] = print, **llm: Any
) -> Engine:
    settings = EngineSettings(python=python, start_seconds=START_SECONDS, **llm.pop("settings", {}))
    return Engine(model, LlmSettings(model=str(model), **llm), settings, folder, say)


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


def until(true: Callable[[], bool], seconds: float = SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
