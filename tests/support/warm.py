"""Python processes that begin with the heavy libraries imported.

Importing them takes longer than most of what a test's process does afterwards. So one server
process imports them once, and every process asked for is a fork of it: a process of its own, with
the exit code and the output of an ordinary one. The server imports nothing of ours, so that a
copy of our code can be run as well.

Hash seed, memory and the list of imported modules are the server's. A test that is about these, or
that kills its process, starts an ordinary one.
"""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing import forkserver, get_context
from pathlib import Path
from unittest import mock

LIBRARIES = ["duckdb", "pyarrow.parquet", "networkx", "sentence_transformers"]

_context = get_context("forkserver")
_context.set_forkserver_preload(LIBRARIES)


def finished(
    script: str, words: tuple[str, ...], environment: Mapping[str, str], limit: float
) -> subprocess.CompletedProcess[str]:
    """`python -P -c script words…` to its end. Raises TimeoutExpired after `limit` seconds.

    What libraries read from the environment when they are imported is that of the first call.
    """
    with mock.patch.dict(os.environ, environment, clear=True):
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("stdout", "stderr")]
        child = _context.Process(target=_run, args=(script, words, dict(environment), said))
        child.start()
        child.join(limit)
        if child.exitcode is None:
            os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
            raise subprocess.TimeoutExpired(words, limit)
        stdout, stderr = [path.read_text() if path.exists() else "" for path in said]
        return subprocess.CompletedProcess(words, child.exitcode, stdout, stderr)


def _run(
    script: str, words: tuple[str, ...], environment: Mapping[str, str], said: list[Path]
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in zip((1, 2), said, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["-c", *words]
    tree = environment.get("PYTHONPATH")
    sys.path[:] = [
        *([tree] if tree else []),
        *(p for p in sys.path if p != str(Path(__file__).parent)),
    ]
    try:
        exec(script, {"__name__": "__main__"})
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
