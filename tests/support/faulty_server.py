"""An OpenAI-compatible HTTP server that misbehaves as a test tells it to.

It speaks HTTP over plain sockets, since half a body, a reset and silence are things that a proper
server does not do.
"""

import asyncio
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from even_time import EvenLoop

# What ends a worked example in a prompt of a base model.
_SHOT = re.compile(r"(?<=\n\nAnswer:) [^\n]*\n\n")


@dataclass(frozen=True)
class Seen:
    """One request as it arrived.

    number: counted from 0; at: when, in even time; open_rows: prompts open, these too.
    prompts: the questions, without worked examples before them.
    """

    number: int
    at: float
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    prompts: list[str]
    open_rows: int


@dataclass(frozen=True)
class Reply:
    """What to do: status, headers and body, of which `share` is sent before the connection ends.

    after: seconds before the answer. held: it waits, at most so long, until this is set.
    reset: the connection is reset in the place of an answer.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0
    after: float = 0.0
    held: threading.Event | None = None
    reset: bool = False


def error(status: int, message: str = "out of order", **headers: str) -> Reply:
    """A refusal in the API's form; header names with underscores for hyphens."""
    body = json.dumps({"error": {"message": message, "code": status}}).encode()
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def says(seen: Seen, n_choices: int | None = None) -> bytes:
    """A right answer: each prompt in capitals; in a list the last comes first."""
    said = [prompt.upper() for prompt in seen.prompts]
    if seen.path.partition("?")[0].endswith("/chat/completions"):
        choices: list[dict[str, Any]] = [
            {"index": 0, "message": {"role": "assistant", "content": said[0]}}
        ]
    else:
        choices = [{"index": i, "text": text} for i, text in enumerate(said)]
    for choice in choices:
        choice["finish_reason"] = "stop"
    usage = {
        "prompt_tokens": sum(len(prompt.split()) for prompt in seen.prompts),
        "completion_tokens": 2 * len(said),
    }
    choices = choices[::-1][:n_choices]
    return json.dumps({"choices": choices, "usage": usage}).encode()


class FaultyServer:
    """Answers rightly wherever `behave` gives None; `delay` seconds after it was asked.

    It keeps even time, as the clients of `asking_client` do, so that neither is late for the other.

    pages: what it says at paths that are only looked at, with `status`; log: all else that it was
    asked, in order. looked: the paths with their queries.
    """

    def __init__(
        self,
        behave: Callable[[Seen], Reply | None] = lambda seen: None,
        delay: float = 0.0,
        port: int = 0,
        pages: Mapping[str, bytes] | None = None,
        tls: ssl.SSLContext | None = None,
        status: int = 200,
    ) -> None:
        self.behave, self.delay, self.port = behave, delay, port
        self.log: list[Seen] = []
        self.pages, self._tls, self._status = pages or {}, tls, status
        self.looked: list[str] = []
        self.cancelled = 0
        self._open_rows = 0
        self._ready = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    def times_asked(self) -> Counter[str]:
        """How often each prompt arrived."""
        return Counter(prompt for seen in self.log for prompt in seen.prompts)

    def __enter__(self) -> "FaultyServer":
        self.start()
        return self

    def start(self) -> None:
        """Listens: for the first time, or again at the same port after it was killed."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(600)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Ends at once: open connections break, nobody listens any more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(120)
            self._ready.clear()

    def settle(self) -> None:
        """Waits until nobody is connected, and all that came by connections has been looked at."""
        asyncio.run_coroutine_threadsafe(self._settled(), self._loop).result(600)

    async def _settled(self) -> None:
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0.03)
            quiet = 0 if self._writers else quiet + 1

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=EvenLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, backlog=2048, ssl=self._tls
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for writer in list(self._writers):
            _reset(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb, path, _ = head[0].split()
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if verb == "GET":
            self.looked.append(path)
            page = self.pages.get(path.partition("?")[0], b"{}")
            return await _write(writer, Reply(self._status, page))
        asked = json.loads(body)
        prompts = _prompts(asked)
        self._open_rows += len(prompts)
        at = self._loop.time()
        seen = Seen(len(self.log), at, path, headers, asked, prompts, self._open_rows)
        self.log.append(seen)
        # A client that hangs up while it waits is noticed, as a real server does.
        gone = asyncio.ensure_future(reader.read(1))
        try:
            reply = self.behave(seen)
            if reply is None:
                reply = Reply(200, says(seen), after=self.delay)
            if reply.held is not None:
                ends = self._loop.time() + reply.after
                while not (gone.done() or reply.held.is_set() or self._loop.time() > ends):
                    await asyncio.wait([gone], timeout=0.02)
            elif reply.after:
                await asyncio.wait([gone], timeout=reply.after)
            if gone.done():
                self.cancelled += len(prompts)
                return False
        finally:
            gone.cancel()
            self._open_rows -= len(prompts)
        await asyncio.sleep(0)
        return await _write(writer, reply)


@contextmanager
def silent_port() -> Iterator[int]:
    """A port on which nobody listens, nor can by chance; a `FaultyServer` may, now and then."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def until(true: Callable[[], object], seconds: float = 600.0) -> bool:
    """Waits until it is true; False if it is not after so long."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _prompts(body: dict[str, Any]) -> list[str]:
    if "messages" in body:
        return [body["messages"][-1]["content"]]
    prompt = body["prompt"]
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    return [one if isinstance(one, list) else _SHOT.split(one)[-1] for one in prompts]


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    if reply.reset:
        _reset(writer)
        return False
    lines = [f"HTTP/1.1 {reply.status} X", f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    sent = reply.body[: int(len(reply.body) * reply.share)]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
    await writer.drain()
    return reply.share == 1.0


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    # -1: closed meanwhile.
    if sock is not None and sock.fileno() != -1:
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: close by reset
    writer.transport.abort()
