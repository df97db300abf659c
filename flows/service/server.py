"""The Prefect server of a store: one child process, shared by its runs, stopped with the last.

It relies on three locks, which the operating system releases however a process ends:

- `server.lock` is held by the server while it runs, so a store never has two servers, and the
  process recorded in `server.json` is the server exactly while the lock is held;
- `users.lock` is shared by all users of the server. The last user to leave stops the server; if all
  were killed, the server notices and stops by itself;
- `door.lock` lets only one process at a time start or stop the server.
"""

import contextlib
import fcntl
import http.client
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil

from tercet.flows.terminal.failures import StageFailed
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


HOST = "127.0.0.1"
START_SECONDS = 300.0
# A running server answers in milliseconds; this leaves room for a loaded machine.
HEALTH_SECONDS = 10.0
# psutil derives start times from the system clock, which may be reset while a server runs.
SAME_START_SECONDS = 5.0
FOLDER = "prefect"
PROCESS = "tercet.flows.service.server_process"
MIGRATED = "prefect.db.ready"
TAKEN = 75
"""Exit code of a server process if the store's lock is taken."""


class ServerError(StageFailed):
    """The Prefect server of the store cannot be had: one clear sentence, then its last lines."""


@dataclass(frozen=True)
class Server:
    """A server process; `started` in seconds since the epoch."""

    pid: int
    port: int
    started: float

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://{HOST}:{self.port}"

    @property
    def api(self) -> str:
        return f"{self.address}/api"


def folder(store_root: Path) -> Path:
    """The folder of a store's Prefect server."""
    return store_root / FOLDER


@contextmanager
def prefect_server(
    store_root: Path, announce: Callable[[str], None], quiet: bool = True
) -> Iterator[str]:
    """A Prefect API for this process and its children within the block; yields its URL.

    `PREFECT_API_URL` is used if set. Otherwise it is the store's own server, which is started here
    unless another run has started it. The settings are passed by the environment, so enter this
    before anything imports prefect (if it is already imported, its settings are reloaded).

    quiet: keeps Prefect's own log lines off the terminal; its API still gets them.

    Raises: ServerError if the server does not start; OSError if the store cannot be written.
    """
    url = os.environ.get("PREFECT_API_URL")
    shared = {"PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore"}
    if quiet:
        shared["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
    if url:
        announce(f"Prefect server: {shown(url)} (PREFECT_API_URL)")
        with _environment(shared):
            yield url
        return
    home = folder(store_root.resolve())
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        users = stack.enter_context(_lock(home / "users.lock", fcntl.LOCK_SH))
        stack.callback(_leave, home, users)

        def meanwhile(server: Server) -> None:
            """Runs while the server starts, which takes as long as importing prefect here."""
            stack.enter_context(_environment({**shared, **_client_settings(home, server)}))
            importlib.import_module("prefect.flows")

        server = _enter(home, meanwhile)
        announce(f"Prefect server: {server.address}")
        yield server.api


@contextmanager
def joined(store_root: Path) -> Iterator[None]:
    """Registers this process as a user of the store's server, if that is its API.

    For flow runs started by another process, which may be killed before they end.
    """
    home = folder(store_root.resolve())
    server = _recorded(home)
    if server is None or os.environ.get("PREFECT_API_URL") != server.api:
        yield
        return
    with _lock(home / "users.lock", fcntl.LOCK_SH) as users:
        try:
            yield
        finally:
            _leave(home, users)


def owned(store_root: Path) -> bool:
    """Whether this process uses the store's own server rather than an external one."""
    server = _recorded(folder(store_root.resolve()))
    return server is not None and os.environ.get("PREFECT_API_URL") == server.api


def running(store_root: Path) -> Server | None:
    """The store's server, if it is running."""
    home = folder(store_root.resolve())
    return _recorded(home) if _is_held(home / "server.lock") else None


def restart(store_root: Path) -> tuple[Server | None, Server]:
    """Starts the store's server again if it has ended or hangs; returns the old and the new server.

    Both are the same if the old server answers after all. The caller is one of its users.

    Raises: ServerError if it does not start.
    """
    home = folder(store_root.resolve())
    return _recorded(home), _enter(home, lambda started: None)


def healthy(server: Server, seconds: float = HEALTH_SECONDS) -> bool:
    """Whether the server's health page answers within this time, asked directly (no proxy)."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=seconds)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _enter(home: Path, meanwhile: Callable[[Server], None]) -> Server:
    """The store's server, running and answering. The caller already holds `users.lock`.

    meanwhile: called once with the server, which may not answer yet.
    """
    with _lock(home / "door.lock", fcntl.LOCK_EX):
        if _is_held(home / "server.lock"):
            server = _await_answer(home, None)
            if server is not None:
                meanwhile(server)
                return server
            _kill_holder(home)
        child = _spawn(home)
        recorded = _await_record(home, child)
        if recorded is not None:
            meanwhile(recorded)
        server = _await_answer(home, child)
        if server is not None:
            (home / MIGRATED).touch()
            return server
        code = child.poll()
        if code is None:
            child.kill()
            child.wait()
        what = f"did not answer within {START_SECONDS:.0f} s"
        if code not in (None, TAKEN):
            what = "ended at once"
        raise ServerError(
            "lost",
            f"The Prefect server of this store {what}; `--no-server` runs without one. "
            f"Its last lines ({home / 'server.log'}):\n{_last_lines(home / 'server.log')}",
        )


def _leave(home: Path, users: IO[bytes]) -> None:
    """Releases the server, and stops it if it has no other users."""
    with _lock(home / "door.lock", fcntl.LOCK_EX):
        fcntl.flock(users, fcntl.LOCK_UN)
        # The server itself takes the lock for an instant to check for users.
        for attempt in range(3):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01 * (attempt < 2))
        else:
            return
        if _is_held(home / "server.lock"):
            _kill_holder(home)


def _spawn(home: Path) -> "subprocess.Popen[bytes]":
    """Starts the server in its own session, so that Ctrl-C at the terminal does not reach it."""
    before = _recorded(home)
    # If a server whose starter was killed comes up only now, its tables and record stay.
    with contextlib.suppress(BlockingIOError), (home / "server.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not (home / MIGRATED).exists():
            # A server that was killed while creating its tables could not start again; the tables
            # are empty.
            for name in ("prefect.db", "prefect.db-wal", "prefect.db-shm", "prefect.db-journal"):
                (home / name).unlink(missing_ok=True)
        (home / "server.json").unlink(missing_ok=True)
    # Opened for appending, since the server cuts the log when it gets too long.
    with (home / "server.log").open("ab") as log:
        log.truncate(0)
        # Reuses the last port if it is free, so that bookmarks keep working.
        return subprocess.Popen(
            [sys.executable, "-m", PROCESS, str(home), str(before.port if before else 0)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=_server_settings(home),
            start_new_session=True,
        )


def _await_record(home: Path, child: "subprocess.Popen[bytes]") -> Server | None:
    """The server that has taken the lock and recorded its address; None if none does in time."""
    deadline = time.monotonic() + START_SECONDS
    while child.poll() in (None, TAKEN) and time.monotonic() < deadline:
        server = _recorded(home)
        if server is not None and _is_held(home / "server.lock"):
            return server
        time.sleep(0.02)
    return None


def _await_answer(home: Path, child: "subprocess.Popen[bytes] | None") -> Server | None:
    """The server that holds the lock, once it answers; None if it does not, or `child` ended.

    A server gets START_SECONDS from its start, and one that is older HEALTH_SECONDS from now.
    """
    began = time.time()
    while True:
        if child is not None and child.poll() not in (None, TAKEN):
            return None
        server = _recorded(home)
        if server is not None and _is_held(home / "server.lock") and healthy(server, 2.0):
            return server
        started = server.started if server is not None else began
        if time.time() > max(started + START_SECONDS, began + HEALTH_SECONDS):
            return None
        time.sleep(0.05)


def _kill_holder(home: Path) -> None:
    """Stops the server, killing it after five seconds. Only the recorded process is affected."""
    server = _recorded(home)
    if server is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(server.pid)
        # Our server has ended, and its process id may have been reused.
        same = abs(process.create_time() - server.started) < SAME_START_SECONDS
        if same and PROCESS in process.cmdline():
            process.terminate()
            if not _released(home, 5.0):
                process.kill()
                _released(home, 60.0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(server.pid, os.WNOHANG)


def _released(home: Path, seconds: float) -> bool:
    """Whether the server's lock is released in time, i.e. it has ended (zombies hold no locks)."""
    deadline = time.monotonic() + seconds
    while _is_held(home / "server.lock"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _recorded(home: Path) -> Server | None:
    try:
        return Server(**json.loads((home / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _last_lines(log: Path, count: int = 15) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return "(no log)"


def shown(url: str) -> str:
    """The URL without its possibly secret parts: user, password, parameters."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2].partition('?')[0]}"


def _server_settings(home: Path) -> dict[str, str]:
    """The server's environment, without the user's own Prefect configuration."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    settings |= {
        "PREFECT_HOME": str(home),
        # Relative to `home`, where the server is started: some paths cannot be written in a URL.
        "PREFECT_API_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:///prefect.db",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # Prefect would keep flow runs for ever; these go after 90 days.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "DO_NOT_TRACK": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    # Prefect unpacks its UI beside its own code; if that is read-only, it goes to the store.
    spec = importlib.util.find_spec("prefect")
    if spec is None or not os.access(Path(spec.origin or "/").parent / "server", os.W_OK):
        settings["PREFECT_UI_STATIC_DIRECTORY"] = str(home / "ui")
    return settings


def _client_settings(home: Path, server: Server) -> dict[str, str]:
    hosts = [h for h in os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",") if h]
    unproxied = ",".join(dict.fromkeys([*hosts, HOST, "localhost"]))
    return {
        "PREFECT_API_URL": server.api,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # httpx uses the environment's proxy even for this machine.
        "NO_PROXY": unproxied,
        "no_proxy": unproxied,
    }


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for the block, and reloads them in an imported prefect."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        if "prefect.context" in sys.modules:
            from prefect.context import SettingsContext, get_settings_context
            from prefect.settings import Settings

            with SettingsContext(profile=get_settings_context().profile, settings=Settings()):
                yield
        else:
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _lock(path: Path, kind: int) -> Iterator[IO[bytes]]:
    with path.open("ab") as file:
        fcntl.flock(file, kind)
        yield file


def _is_held(path: Path) -> bool:
    """Whether any process holds the lock exclusively."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def answering() -> "Iterator[SyncPrefectClient]":
    """A client of the server. Raises: BadInput if that does not answer, or not as Prefect's does.

    Enter `prefect_server` first.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    address = shown(os.environ["PREFECT_API_URL"])
    try:
        with get_client(sync_client=True) as client:
            if not _is_api(client):
                raise BadInput(
                    "unreachable",
                    f"{address} is no Prefect API: set PREFECT_API_URL to your server's, such as "
                    "http://127.0.0.1:4200/api.",
                )
            yield client
    except httpx.TransportError as error:
        raise BadInput(
            "unreachable",
            f"The Prefect server {address} does not answer ({error}): start it, or correct "
            "PREFECT_API_URL.",
        ) from error
    except PrefectHTTPStatusError as error:
        if error.response.status_code not in (401, 403):
            raise
        raise BadInput(
            "refused",
            f"The Prefect server {address} refuses the login: put USER:PASSWORD into "
            "PREFECT_API_AUTH_STRING, or a key into PREFECT_API_KEY.",
        ) from error


def _is_api(client: "SyncPrefectClient") -> bool:
    """Whether what answers is an API: Prefect's pages answer everything, other servers with 404."""
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        client.api_version()
    except json.JSONDecodeError:
        return False
    except PrefectHTTPStatusError as error:
        if error.response.status_code != 404:
            raise
        return False
    return True
