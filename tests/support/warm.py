"""Python processes that begin with the heavy libraries and our own code imported.

Importing them takes longer than most of what a test's process does afterwards. So one server
process imports them once, and every process asked for is a fork of it: a process of its own, with
the exit code and the output of an ordinary one, and killed like one. A copy of our code may be run
as well: it is imported anew.

Hash seed, memory and the list of imported modules are the server's. A test that is about these
starts an ordinary process.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, get_context
from pathlib import Path
from pkgutil import iter_modules
from unittest import mock

from tercet.flows import commands

LIBRARIES = ["duckdb", "pyarrow.parquet", "networkx", "sentence_transformers"]
# What commands import, a run also within its functions.
OURS = [
    *("tercet.flows.cli", "tercet.models.training.train_encoder"),
    *(f"tercet.flows.commands.{module.name}" for module in iter_modules(commands.__path__)),
]

_context = get_context("forkserver")
_context.set_forkserver_preload([*LIBRARIES, *OURS])


class Child:
    """`python -P -c script words…` in a process group of its own; what tests use of a `Popen`.

    stdout, stderr: the files that it writes. folder: where it is, if not where pytest was started.
    """

    def __init__(
        self,
        script: str,
        words: Sequence[str | Path],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        """What libraries read from the environment when they are imported is that of the first."""
        # A copy of our code is for those that ask for it, and not for the server.
        own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
        with mock.patch.dict(os.environ, own, clear=True):
            forkserver.ensure_running()
        self.args = [os.fspath(word) for word in words]
        self._folder = tempfile.TemporaryDirectory()
        self.stdout, self.stderr = [Path(self._folder.name, name) for name in ("out", "err")]
        said = [self.stdout, self.stderr]
        self._process = _context.Process(
            target=_run, args=(script, self.args, dict(environment), folder, said)
        )
        self._process.start()
        self.pid = self._process.pid or 0
        # From then on it has a group, which can be killed.
        while not self.stderr.exists() and self._process.exitcode is None:
            time.sleep(0.001)
        _running.add(self)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        _running.discard(self)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        stdout, stderr = [
            path.read_text() if path.exists() else "" for path in (self.stdout, self.stderr)
        ]
        return stdout, stderr


_running: set[Child] = set()


@atexit.register
def _end() -> None:
    """Kills what a test that failed has left, for which the interpreter would wait."""
    for child in _running:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def finished(
    script: str,
    words: Sequence[str | Path],
    environment: Mapping[str, str],
    limit: float,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Such a process to its end. Raises TimeoutExpired after `limit` seconds, when it is killed."""
    child = Child(script, words, environment, folder)
    try:
        stdout, stderr = child.communicate(limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(child.args, child.wait(), stdout, stderr)


def _run(
    script: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None,
    said: list[Path],
) -> None:
    os.setsid()
    if folder is not None:
        os.chdir(folder)
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
    if tree:
        for name in [one for one in sys.modules if one.partition(".")[0] == "tercet"]:
            del sys.modules[name]
    try:
        exec(script, {"__name__": "__main__"})
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
