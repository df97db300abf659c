"""One HTTP exchange with an endpoint, and the classification of its failures."""

import asyncio
import json
import logging
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, TypeAlias

import httpx

from tercet.models.errors import Unusable
from tercet.models.llm.client.pace import retry_after
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Parameter
from tercet.models.llm.wire import (
    Completion,
    Malformed,
    Text,
    Wire,
    Withheld,
    error_message,
    message,
    misfits,
)

# down: no connection. busy: overloaded, not the row's fault. late (timed out), erred: the fault of
# the endpoint or the row. refused, withheld: the row's fault.
Kind: TypeAlias = Literal["down", "busy", "late", "erred", "refused", "withheld"]

# Seconds until a connection must be established.
_CONNECT = 10.0
_LOG = logging.getLogger(__name__)
# Messages of a 429 that mean a spent quota instead of a busy server.
_SPENT = re.compile(r"(?i)insufficient_quota|exceeded your current quota|credit balance is too low")
# Client errors that may succeed on another attempt.
_PASSING = (408, 409, 425)


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server.

    url: up to /v1. model: the server's name for the model. key: sent as a bearer token, and never
    shown. Raises Unusable for a malformed url.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            host = httpx.URL(self.url).host
        except httpx.InvalidURL as error:
            raise Unusable(
                "bad_value", f"An endpoint's address cannot be read ({error}): correct it."
            ) from None
        if not host:
            address = self.url.partition("?")[0]
            raise Unusable(
                "bad_value", f"The endpoint {address!r} names no host: write http://HOST:PORT/v1."
            )

    @property
    def shown(self) -> str:
        """The address without user, password and query."""
        url = httpx.URL(self.url)
        port = "" if url.port is None else f":{url.port}"
        host = f"[{url.host}]" if ":" in url.host else url.host
        return f"{url.scheme}://{host}{port}{url.path.rstrip('/')}"

    @property
    def is_outside(self) -> bool:
        """Whether it is on another host; only then is the environment's proxy used."""
        return httpx.URL(self.url).host not in ("127.0.0.1", "localhost", "::1")

    def at(self, path: str) -> httpx.URL:
        """The address of a path of the API; a query is kept."""
        return _at(self.url, path)


@lru_cache(maxsize=64)
def _at(address: str, path: str) -> httpx.URL:
    url = httpx.URL(address)
    return url.copy_with(path=url.path.rstrip("/") + path)


class RequestError(Exception):
    """An exchange without an answer.

    what: in a few words, as `HTTP 500`. detail: the server's message, or "".
    pause: seconds that the endpoint asks to wait.
    unusable: the error for the user, if every request fails like this.
    """

    def __init__(
        self,
        kind: Kind,
        what: str,
        detail: str = "",
        pause: float | None = None,
        unusable: Unusable | None = None,
    ) -> None:
        super().__init__(what)
        self.kind, self.what, self.detail, self.pause = kind, what, detail, pause
        self.unusable = unusable

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what

    def after(self, tries: int) -> str:
        """The message, as the last of `tries` tries."""
        times = "1 try" if tries == 1 else f"{tries} tries"
        return f"{self.what} after {times}" + (f": {self.detail}" if self.detail else "")


class Connections:
    """Sends requests to an endpoint, each over a separate httpx client.

    The connection pool of a client scans all connections for every request: one client takes 2.4 ms
    of CPU per request with 64 open connections and 5.7 ms with 512, separate clients 0.6 to 0.75 ms
    (httpx 0.28). Idle connections are closed after four seconds: common servers close them after
    five, and a request must not use a connection that is being closed.

    key_env: name of the environment variable with the endpoint's key, for messages.
    """

    def __init__(self, endpoint: Endpoint, key_env: str) -> None:
        self._endpoint, self._key_env = endpoint, key_env
        self._verify = httpx.create_ssl_context() if endpoint.url.startswith("https") else False
        self._headers = {"Content-Type": "application/json"}
        if endpoint.key:
            self._headers["Authorization"] = f"Bearer {endpoint.key}"
        # Parameters that the endpoint has rejected: its own names for them, None to leave out.
        self._send: dict[Parameter, str | None] = {}
        self._all: list[httpx.AsyncClient] = []
        self._free: list[httpx.AsyncClient] = []

    async def exchange(
        self, wire: Wire, request: Request, text: Text, timeout: float
    ) -> Completion:
        """The answer to `text`, with the sampling and schema of `request`.

        Raises RequestError; Unusable if nothing can be sent at all.
        """
        endpoint = self._endpoint
        try:
            with self._connection() as http:
                async with asyncio.timeout(timeout):
                    while True:
                        adapted = replace(wire, send={**wire.send, **self._send})
                        body = adapted.body(endpoint.model, request, text)
                        content = json.dumps(body).encode()
                        response = await http.post(endpoint.at(wire.path), content=content)
                        status = response.status_code
                        names = misfits(response.content, body) if status in (400, 422) else {}
                        if not names:
                            break
                        # Send again, from now on with the parameters that it accepts.
                        self._adapt(names, response)
        except TimeoutError:
            raise RequestError("late", f"no answer within {timeout:g} s") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _down(error, endpoint) from None
        except httpx.RequestError as error:
            raise RequestError("erred", "connection lost", type(error).__name__) from None
        if response.status_code != 200:
            raise _refusal(response, endpoint, self._key_env)
        try:
            return wire.read(response.content, text)
        except Withheld as error:
            raise RequestError("withheld", str(error)) from None
        except Malformed as error:
            detail = error_message(response.content, endpoint.key)
            raise RequestError("erred", str(error), detail) from None

    def _adapt(self, names: Mapping[Parameter, str | None], response: httpx.Response) -> None:
        for name, other in names.items():
            if name not in self._send:
                _LOG.warning(
                    "The endpoint %s does not take %s (%s): it %s; llm.send sets that.",
                    self._endpoint.shown,
                    name,
                    message(response.content, self._endpoint.key),
                    "is left out" if other is None else f"is sent as {other}",
                )
        self._send |= names

    async def reach(self) -> None:
        """Returns if a connection succeeds, whatever the response. Raises RequestError (down)."""
        try:
            with self._connection() as http:
                await http.get(self._endpoint.at("/models"), timeout=_CONNECT)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _down(error, self._endpoint) from None
        except httpx.RequestError:
            return

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._all:
            await connection.aclose()

    @contextmanager
    def _connection(self) -> Iterator[httpx.AsyncClient]:
        """A client for exclusive use: the most recently used free one, or a new one."""
        connection = self._free.pop() if self._free else self._another()
        try:
            yield connection
        finally:
            self._free.append(connection)

    def _another(self) -> httpx.AsyncClient:
        try:
            connection = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=_CONNECT),
                limits=httpx.Limits(keepalive_expiry=4.0),
                verify=self._verify,
                trust_env=self._endpoint.is_outside,
            )
        except (ImportError, ValueError) as error:
            raise no_proxy(error) from None
        self._all.append(connection)
        return connection


def no_proxy(error: Exception) -> Unusable:
    """The error for a proxy in the environment with which no client can be made."""
    return Unusable(
        "bad_value",
        f"The proxy that the environment names (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY) cannot be used"
        f" ({error}): name an http:// one, or except the endpoint's host by NO_PROXY.",
    )


def never_to_be_had(error: BaseException, endpoint: Endpoint) -> Unusable | None:
    """The error for the user if no connection can ever succeed; None if a later one may."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unusable(
                "refused",
                f"The certificate of the endpoint {endpoint.shown} cannot be trusted"
                f" ({cause.verify_message}): replace it, or name its authority's file in the"
                " environment variable SSL_CERT_FILE.",
            )
        # A name server that fails now may work later.
        if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
            return Unusable(
                "unreachable",
                f"The host of the endpoint {endpoint.shown} cannot be found ({cause.strerror}):"
                " correct run.llm.endpoints.",
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _down(error: httpx.RequestError, endpoint: Endpoint) -> RequestError:
    detail = str(error) or type(error).__name__
    return RequestError("down", "no connection", detail, unusable=never_to_be_had(error, endpoint))


def _refusal(response: httpx.Response, endpoint: Endpoint, key_env: str) -> RequestError:
    status, detail = response.status_code, message(response.content, endpoint.key)
    what = f"HTTP {status}"
    # With Retry-After, it is a rate limit instead of a spent quota.
    if status == 429 and "Retry-After" not in response.headers and _SPENT.search(response.text):
        spent = (
            f"The quota of the endpoint {endpoint.shown} is spent ({what}: {detail}): add to it."
        )
        return RequestError("refused", what, detail, unusable=Unusable("limit", spent))
    if status in (429, 503):
        pause = retry_after(response.headers.get("Retry-After"))
        return RequestError("busy", what, detail, pause)
    if status in _PASSING or not 300 <= status < 500:
        return RequestError("erred", what, detail)
    unusable = None
    if status in (401, 402, 403):
        held = "was not accepted" if endpoint.key else "is needed"
        unusable = Unusable(
            "refused",
            f"The endpoint {endpoint.shown} denies access ({what}: {detail}): a key {held}; put"
            f" the right one into the environment variable {key_env}.",
        )
    elif status == 404:
        unusable = Unusable(
            "unknown_name",
            f"The endpoint {endpoint.shown} does not know the model {endpoint.model!r} or the"
            f" address ({what}: {detail}): check `llm.name`, and that the address ends in /v1.",
        )
    elif status < 400:
        place = response.headers.get("Location", "nowhere").partition("?")[0]
        unusable = Unusable(
            "bad_value", f"The endpoint {endpoint.shown} has moved to {place}: give that address."
        )
    return RequestError("refused", what, detail, unusable=unusable)
