"""Answers of a language model, and processes that add some to a store's pool."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tercet.storage.answers import open_pool
from tercet.storage.catalog.read_only import checked
from tercet.storage.catalog.views import connect
from tercet.storage.store import Store

START = datetime(2026, 1, 2, 3, 4, 5)
# Processes that share a store: each adds rows and tells the number of a row once `add` is back.
ADD = """
import sys
from tercet.storage.answers import open_pool
from tercet.storage.store import open_store
store, first, count, then = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
pool = open_pool(open_store(store), "recipe", f"run-{first}")
for number in range(first, first + count):
    pool.add({"request_digest": f"{number:032x}", "method": "rewrite", "model": "m",
        "endpoint": "http://here/v1", "raw": f"answer {number} " * 20, "finish_reason": "stop",
        "prompt_tokens": 10, "n_tokens": 5, "attempts": 1, "seconds": 0.5})
    print(number, flush=True)
if then == "close":
    pool.close()
elif then == "wait":
    print("waits", flush=True)
    sys.stdin.readline()
"""
OPEN = """
import sys
from tercet.storage.answers import open_pool
from tercet.storage.store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
pool = open_pool(store, "recipe", "later")
print(pool.spent().answers, flush=True)
pool.close()
"""


def digest(number: int) -> str:
    return f"{number:032x}"


def answer(number: int, **more: Any) -> dict[str, Any]:
    """A row as a client adds it: 10 tokens asked, 5 answered, half a second."""
    row = {
        "request_digest": digest(number),
        "method": "rewrite",
        "model": "m",
        "endpoint": "http://here/v1",
        "raw": f"answer {number}",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "n_tokens": 5,
        "attempts": 1,
        "seconds": 0.5,
    }
    return row | more


def failure(number: int, **more: Any) -> dict[str, Any]:
    failed = {"raw": "", "finish_reason": "failed", "prompt_tokens": 0, "n_tokens": 0}
    return answer(number, **failed, attempts=5, error="HTTP 500", **more)


def texts(store: Store, numbers: range, recipe: str = "other") -> dict[int, str]:
    """What a new pool finds of these numbers."""
    with open_pool(store, recipe, "looks") as pool:
        found = pool.find([digest(number) for number in numbers])
    return {int(key, 16): response.raw for key, response in found.items()}


def files(store: Store) -> tuple[list[Path], list[Path]]:
    """The sealed files, and the journals; nothing else may be there."""
    folder = store.local("responses")
    sealed = sorted(folder.glob("*.parquet"))
    left = sorted(folder.glob("journal/*.jsonl"))
    there = {path for path in folder.rglob("*") if path.is_file()}
    assert there == {*sealed, *left}, there
    return sealed, left


def ask(store: Store, query: str) -> list[tuple[Any, ...]]:
    with connect(store) as connection:
        return connection.execute(checked(connection, query)).fetchall()


@contextmanager
def child(program: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def adding(store: Store, first: int, count: int, then: str) -> Any:
    return child(ADD, store.location, str(first), str(count), then)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
