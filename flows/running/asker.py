"""Connects a run's steps to their language model, through the pool of answers and the ceilings.

A request whose answer is in the store is never sent again. The rest go to the recipe's endpoints
or, without any, to a vLLM server, which is started for the first request that the pool cannot
answer and stopped before another stage needs its memory.
"""

import hashlib
import json
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.recipe.model import Recipe
from tercet.models.llm.errors import CeilingReached, Stopped
from tercet.models.llm.messages import Answer, Ask, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.wire import ANSWER, STOP
from tercet.storage import fingerprint, locks
from tercet.storage.answers.pool import Pool, Response, open_pool
from tercet.storage.store import Store

if TYPE_CHECKING:
    from tercet.models.llm.client.client import Client
    from tercet.models.llm.vllm.engine import Engine

# Prefix of the folder of a run's server in the store's scratch.
ENGINE = "engine-"
# Number of requests looked up in the pool at once.
_BLOCK = 4096


@dataclass(frozen=True)
class Identity:
    """The identity of the language model, as far as it affects the answers.

    label: its name for people. digest: of weights, adapter and precision, or of the name alone.
    """

    label: str
    digest: str


def identity(llm: LlmSettings, components: Mapping[str, Any]) -> Identity:
    """The model's identity, from a step's fingerprint components (`fingerprints.Fingerprint`)."""
    if llm.name is not None:
        return Identity(llm.name, fingerprint.digest({"name": llm.name}))
    weights = str(components["models"]["llm"])
    known = {
        "weights": weights,
        "adapter": components["externals"].get("adapter"),
        "dtype": llm.dtype,
        "quantization": llm.quantization,
    }
    return Identity(f"{Path(llm.model or '').name}@{weights[:8]}", fingerprint.digest(known))


def digested(
    requests: Iterable[Request], method: str, llm: LlmSettings, who: Identity
) -> Iterator[Request]:
    """The requests with their pool keys: digests of prompt, model, sampling, schema and seed."""
    # Keyed by object identity, so the objects are kept alive with their digests.
    bases: dict[tuple[int, int], tuple[Request, Any]] = {}
    for request in requests:
        key = id(request.sampling), id(request.schema)
        if key not in bases:
            common = {
                "model": who.digest,
                # The text appended to a base model's prompt, and its stop strings.
                "api": "chat" if llm.api == "chat" else [ANSWER, *STOP],
                "template": llm.template_kwargs,
                "sampling": request.sampling,
                "schema": request.schema,
            }
            bases[key] = request, hashlib.sha256(fingerprint.canonical(common))
        digest = bases[key][1].copy()
        digest.update(f"\x1f{request.seed}\x1f".encode())
        digest.update(request.prompt.encode("utf-8", "surrogatepass"))
        yield replace(request, method=method, digest=digest.hexdigest()[:32])


class Asker:
    """Sends the requests of one run's steps; threads may share it."""

    def __init__(
        self, store: Store, recipe: Recipe, run_id: str, say: Callable[[str], None]
    ) -> None:
        assert recipe.llm is not None
        self._store = store
        self._llm: LlmSettings = recipe.llm
        self._settings: AskingSettings = recipe.run.llm
        self._run_id = run_id
        self._say = say
        self._pool: Pool = open_pool(store, recipe.name, run_id)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._engine: Engine | None = None
        self._fault: Exception | None = None
        self._turn = threading.Lock()
        self._turns: dict[str, tuple[int, ExitStack]] = {}
        self._folder = store.root / "scratch" / f"{ENGINE}{run_id}"
        _sweep(self._folder.parent)

    def begin(self) -> None:
        """Clears an earlier failure so that the step is tried again."""
        if self._fault is not None:
            self.release()
            self._fault = None

    def asking(self, components: Mapping[str, Any]) -> Ask:
        """The function with which the parts of a step with these fingerprint components ask."""
        who = identity(self._llm, components)

        def ask(method: str, requests: Iterable[Request]) -> Iterator[Answer]:
            return self._ask(who, method, requests)

        return ask

    def cancel(self) -> None:
        """Fails every pending request, and aborts a server that is starting."""
        self._fault = self._fault or Stopped("Asking was cancelled.")
        engine, client = self._engine, self._client
        if engine is not None and client is None:
            engine.cancel()
        if client is not None:
            client.close()

    def release(self) -> None:
        """Stops client and server to free the memory for the next stage."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
            if self._engine is not None:
                engine, self._engine = self._engine, None
                engine.stop()
                if self._fault is None:
                    # If the server failed, its error has named the log.
                    shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Stops everything; the answers are in the pool."""
        try:
            self.release()
        finally:
            self._pool.close()

    def _ask(self, who: Identity, method: str, requests: Iterable[Request]) -> Iterator[Answer]:
        recalled: deque[Answer] = deque()
        with ExitStack() as turn:
            keyed = digested(requests, method, self._llm, who)
            open_ = self._unanswered(keyed, recalled, method, who, turn)
            first = next(open_, None)
            while recalled:
                yield recalled.popleft()
            if first is None:
                return
            self._check_ceilings()
            for answer in self._ready(who).ask(chain([first], open_)):
                while recalled:
                    yield recalled.popleft()
                yield answer
        while recalled:
            yield recalled.popleft()

    def _unanswered(
        self,
        requests: Iterator[Request],
        recalled: "deque[Answer]",
        method: str,
        who: Identity,
        turn: ExitStack,
    ) -> Iterator[Request]:
        """The requests without an answer in the pool; answers to the others go to `recalled`.

        Before the first of them this run takes a lock on the model and method, so that two
        concurrent runs do not both pay for the same answers.
        """
        waited = False
        while block := list(islice(requests, _BLOCK)):
            digests = [request.digest for request in block]
            known = self._pool.find(digests)
            if not waited and len(known) < len(set(digests)):
                waited = True
                turn.enter_context(self._alone(f"asking-{method}-{who.digest}"))
                known = self._pool.find(digests)
            for request in block:
                found = known.get(request.digest)
                if found is None:
                    yield request
                else:
                    recalled.append(_recalled(request, found))

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Holds the store's lock of that name, shared by the threads of this run."""
        with self._turn:
            count, held = self._turns.get(name) or (0, ExitStack())
            if not count:
                held.enter_context(
                    locks.hold(
                        self._store,
                        name,
                        lambda holder: self._say(f"waits for {holder}, which asks the same model"),
                        f"run {self._run_id}",
                        self._raise_fault,
                    )
                )
            self._turns[name] = count + 1, held
        try:
            yield
        finally:
            with self._turn:
                count, held = self._turns.pop(name)
                if count > 1:
                    self._turns[name] = count - 1, held
                else:
                    held.close()

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _ready(self, who: Identity) -> "Client":
        """The client, with a running server."""
        with self._lock:
            # A failure for one part is not retried for the next.
            self._raise_fault()
            if self._client is None:
                try:
                    self._client = self._connected(who)
                except Exception as error:
                    self._fault = error
                    raise
            return self._client

    def _connected(self, who: Identity) -> "Client":
        from tercet.models.llm.chat_template import chat_renderer
        from tercet.models.llm.client.client import Client, Endpoint
        from tercet.models.llm.connect import endpoints, wire
        from tercet.models.llm.vllm.engine import Engine

        path = None if self._llm.model is None else fingerprints.model_path(self._llm.model)
        settings, check = self._settings, _nothing
        if settings.endpoints:
            served = endpoints(settings, self._llm)
        else:
            assert path is not None
            if self._llm.api == "chat":
                # Raises before a server is started for nothing.
                chat_renderer(path, self._llm.template_kwargs)
            self._engine = Engine(path, self._llm, settings.engine, self._folder, self._say)
            url = self._engine.start()
            served = [Endpoint(url, self._engine.name, None)]
            check = self._engine.check
            # The server may be restarting; `check` raises once it is dead for good.
            patience = max(settings.patience, settings.engine.start_seconds)
            settings = settings.model_copy(update={"patience": patience})
        look = wire(self._llm, path, served)
        return Client(served, look, settings, who.label, self._record, check)

    def _record(self, request: Request, answer: Answer) -> None:
        """Stores the answer before anything else sees it. Raises Stopped at a ceiling."""
        self._pool.add(
            {
                "request_digest": answer.digest,
                "method": request.method,
                "model": answer.model,
                "endpoint": answer.endpoint,
                "raw": answer.raw,
                "finish_reason": answer.finish_reason,
                "prompt_tokens": answer.prompt_tokens,
                "n_tokens": answer.n_tokens,
                "attempts": answer.attempts,
                "seconds": answer.seconds,
                "cost": cost(self._settings, answer.prompt_tokens, answer.n_tokens),
                "error": answer.error,
            }
        )
        self._check_ceilings()

    def _check_ceilings(self) -> None:
        spent = self._pool.spent()
        tokens, money = self._settings.max_tokens_total, self._settings.max_cost
        if tokens is not None and spent.tokens >= tokens:
            reached = f"max_tokens_total of {tokens:,} is reached: {spent.tokens:,} tokens"
        elif money is not None and spent.cost >= money:
            reached = f"max_cost of {money:,} is reached: {spent.cost:,.4f}"
        else:
            return
        raise CeilingReached(
            f"The ceiling run.llm.{reached} spent on {spent.answers:,} answers, which are kept. "
            "Raise it to continue."
        )


def cost(settings: AskingSettings, prompt_tokens: int, n_tokens: int) -> float | None:
    """The cost of these tokens at the recipe's prices; None if it has none."""
    if settings.price_in is None and settings.price_out is None:
        return None
    return (
        prompt_tokens * (settings.price_in or 0.0) + n_tokens * (settings.price_out or 0.0)
    ) / 1e6


def _recalled(request: Request, found: Response) -> Answer:
    return Answer(
        request.place,
        request.digest,
        found.model,
        found.raw,
        found.finish_reason,
        found.prompt_tokens,
        found.n_tokens,
        found.attempts,
        found.seconds,
        found.endpoint,
    )


def _sweep(scratch: Path) -> None:
    """Removes the remains of killed runs' servers, except those still running."""
    for folder in scratch.glob(f"{ENGINE}*"):
        try:
            pids = json.loads((folder / "vllm.json").read_text())
        except (OSError, ValueError):
            continue
        if not any(locks.alive(pid) for pid in pids.values() if isinstance(pid, int)):
            shutil.rmtree(folder, ignore_errors=True)


def _nothing() -> None:
    """An endpoint that we did not start: its answers show whether it is up."""
