"""A store of its own for each test, and processes beside it."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from s3_server import bucket, s3

from tercet.storage.store import Store, open_store

__all__ = ["bucket", "s3"]

PROGRAM = Path(__file__).parents[1] / "support" / "processes.py"


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of its own on a disk, or where `s3_server.EVERYWHERE` says."""
    if (place := getattr(request, "param", "disk")) == "disk":
        return open_store(str(tmp_path / "store"))
    proxy = request.getfixturevalue("bucket")
    opened = open_store(f"s3://bucket/{uuid.uuid4().hex}")
    proxy.chance = 0.1 if place == "faults" else 0.0
    return opened


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
