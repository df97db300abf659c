"""An S3-compatible server as a process (moto), and a proxy before it that counts and spoils."""

import http.client
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

ANSWER_LOST = "answer lost"
BUSY_BEFORE, BUSY_AFTER = "503 before the commit", "503 after the commit"
CONFLICT = "409"
SLOW = "slow"
BODY_CUT = "body cut"
RESET = "connection reset"
SLOW_SECONDS = 0.5
DENIED = "400 that quotes the token"
FAULTS = (ANSWER_LOST, BUSY_BEFORE, BUSY_AFTER, CONFLICT, SLOW, BODY_CUT, RESET)

# What a store does, it does on a disk, in a bucket, and in one behind a network that fails now and
# then: for the fixture `store` of tests/storage.
EVERYWHERE = pytest.mark.parametrize("store", ["disk", "moto", "faults"], indirect=True)
# The same for what takes processes of its own.
FAR_APART = pytest.mark.parametrize("store", ["disk", "faults"], indirect=True)

# What moto does not look at, and clients insist on.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "planted-access-key",
    "AWS_SECRET_ACCESS_KEY": "planted-secret-key",
    "AWS_REGION": "us-east-1",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def moto_server() -> Iterator[int]:
    """A running server; its port."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with socket.socket() as asking:
                    if asking.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port
        finally:
            process.kill()


def make_bucket(port: int, name: str) -> None:
    """An empty bucket on the server."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", f"/{name}")
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()


@dataclass
class Proxy:
    """Passes requests on to a server.

    faults: of requests of a method whose path has this in it, the next are spoilt: (method, text,
        fault). chance: of any other request to be spoilt, by a 409 only if it has a condition.
        ignored: a header that is not passed on. refused: a header that the server does not know.
        seen: every request, method and path. delay: seconds before each request is passed on.
    """

    server: int
    port: int = 0
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    chance: float = 0.0
    delay: float = 0.0
    ignored: str = ""
    refused: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)
    dice: Random = field(default_factory=lambda: Random(3))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        """What AWS_ENDPOINT_URL is to say."""
        return f"http://127.0.0.1:{self.port}"

    def fault(self, method: str, path: str, conditional: bool) -> str | None:
        """The fault for this request, which is noted."""
        with self.lock:
            self.seen.append((method, path))
            for planned in self.faults:
                if planned[0] == method and planned[1] in path:
                    self.faults.remove(planned)
                    return planned[2]
            if self.dice.random() >= self.chance:
                return None
            return self.dice.choice([one for one in FAULTS if conditional or one != CONFLICT])

    def counted(self) -> list[tuple[str, str]]:
        """The requests since this was asked last."""
        with self.lock:
            seen, self.seen = self.seen, []
            return seen


@contextmanager
def proxy(server: int) -> Iterator[Proxy]:
    """A running proxy before the server."""
    passing = Proxy(server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            conditional = not {"if-match", "if-none-match"}.isdisjoint(map(str.lower, self.headers))
            fault = passing.fault(self.command, self.path, conditional)
            time.sleep(passing.delay)
            if fault == RESET:
                # Closed at once, and whoever waits is told so.
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()
                self.close_connection = True
                return
            if fault == SLOW:
                time.sleep(SLOW_SECONDS)
            if fault == BUSY_BEFORE:
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                return
            if fault == DENIED:
                quoted = f"<Token-0>{ENVIRONMENT['AWS_SECRET_ACCESS_KEY']}</Token-0>".encode()
                self._answer(400, {}, b"<Error><Code>ExpiredToken</Code>" + quoted + b"</Error>")
                return
            if passing.refused in [name.lower() for name in self.headers]:
                self._answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
                return
            if fault == CONFLICT:
                self._answer(409, {}, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
                return
            status, headers, answer = self._passed_on(body)
            if fault == ANSWER_LOST:
                self.connection.close()
                self.close_connection = True
            elif fault == BUSY_AFTER:
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            else:
                self._answer(status, headers, answer, cut=fault == BODY_CUT)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any  # noqa: N815

        def _passed_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", passing.server)
            given = {n: v for n, v in self.headers.items() if n.lower() != passing.ignored}
            connection.request(self.command, self.path, body, given)
            answer = connection.getresponse()
            found = answer.read()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            connection.close()
            return answer.status, headers, found

        def _answer(
            self, status: int, headers: dict[str, str], body: bytes, cut: bool = False
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = len(body)
            if self.command == "HEAD":
                length = int(headers.get("content-length", 0))
            self.send_header("content-length", str(length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.wfile.flush()
                self.connection.close()
                self.close_connection = True

        def log_message(self, *said: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            # Whoever asked has gone.
            pass

    with Server(("127.0.0.1", 0), Handler) as serving:
        passing.port = serving.server_port
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield passing
        finally:
            serving.shutdown()


@pytest.fixture(scope="session")
def s3() -> Iterator[Proxy]:
    """A server with a bucket named `bucket`, behind a proxy."""
    with moto_server() as port, proxy(port) as passing:
        make_bucket(port, "bucket")
        yield passing


@pytest.fixture
def bucket(s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The proxy before a bucket that the environment names."""
    own = {"AWS_ENDPOINT_URL": s3.endpoint, "TERCET_WORK": str(tmp_path / "work")}
    for name, value in {**ENVIRONMENT, **own}.items():
        monkeypatch.setenv(name, value)
    s3.counted()
    yield s3
    s3.faults.clear()
    s3.chance = 0.0
