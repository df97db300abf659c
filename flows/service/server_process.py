"""The process of a store's Prefect server: started by `server`, not by hand."""

import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from tercet.flows.service.server import HOST, TAKEN, Server
from tercet.models.llm.vllm import log

# How long the server waits for a new user after all users were killed.
ORPHAN_SECONDS = 30.0


def _bound(preferred: int) -> socket.socket:
    """A socket on the preferred port of this machine, or else on any free one."""
    for port in (preferred, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            listener.close()
            continue
        return listener
    raise OSError(f"no free port on {HOST}")


def _stop_when_alone(home: Path) -> None:
    """Ends this process once it has had no users for a while because they were killed.

    Looks after the log meanwhile.
    """
    alone = 0.0
    step = ORPHAN_SECONDS / 6
    with (home / "users.lock").open("ab") as users:
        while True:
            time.sleep(step)
            log.cut(home / "server.log")
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = 0.0
                continue
            alone += step
            if alone >= ORPHAN_SECONDS:
                # The lock stays held: new users wait, and then start a new server.
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(10)
                os._exit(1)
            fcntl.flock(users, fcntl.LOCK_UN)


def _serve(home: Path, port: int) -> int:
    """The child: takes the server lock, records itself, and serves until it is stopped."""
    with (home / "server.lock").open("ab") as lock:
        # A process that only checks the lock holds it for an instant; a server keeps it.
        for attempt in range(20):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05 * (attempt > 0))
        else:
            return TAKEN
        listener = _bound(port)
        port = listener.getsockname()[1]
        server = Server(os.getpid(), port, psutil.Process().create_time())
        fresh = home / f"server.json.{os.getpid()}"
        fresh.write_text(json.dumps(asdict(server)))
        fresh.rename(home / "server.json")
        threading.Thread(target=_stop_when_alone, args=(home,), daemon=True).start()
        # The address at which the server's UI and services look for its API.
        os.environ["PREFECT_SERVER_API_HOST"] = HOST
        os.environ["PREFECT_SERVER_API_PORT"] = str(port)
        os.environ["PREFECT_UI_API_URL"] = server.api
        import uvicorn

        config = uvicorn.Config(
            "prefect.server.api.server:create_app",
            factory=True,
            host=HOST,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    raise SystemExit(_serve(Path(sys.argv[1]), int(sys.argv[2])))
