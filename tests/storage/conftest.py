"""A store of its own for each test, and processes beside it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tercet.storage.store import Store, open_store

PROGRAM = Path(__file__).parents[1] / "support" / "processes.py"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def beside(store: Store) -> Iterator[Callable[..., "subprocess.Popen[Any]"]]:
    """Starts a process of `processes.py` on the store; returns once it is ready to go."""
    started: list[subprocess.Popen[Any]] = []

    def start(*arguments: str) -> "subprocess.Popen[Any]":
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), arguments[0], store.location, *arguments[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
