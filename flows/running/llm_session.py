"""Connects a run's steps to the models that answer them, through the pool and the ceilings.

A request whose answer is in the store is never sent again. The rest go to the recipe's endpoints,
to a vLLM server of ours, or to a fitted generator in this process. A model is started for the first
request that the pool cannot answer, and ended before the next model starts or another stage needs
its memory.
"""

import json
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.flows.recipe.model import Recipe
from tercet.flows.running.answering import Identity, cost, digested, identity, served
from tercet.flows.running.gpus import device
from tercet.models.errors import CeilingReached, Stopped, Unusable
from tercet.models.llm.messages import Answer, Ask, Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.storage import locks
from tercet.storage.answers import Pool, Response, open_pool
from tercet.storage.store import Store
from tercet.tasks.findings.answers import UNLIKE, find_fruitless
from tercet.tasks.findings.warning import StageWarning
from tercet.tasks.synthesis.fitted import decoding_of

if TYPE_CHECKING:
    from tercet.models.generators.generator import Local
    from tercet.models.llm.client.client import Client
    from tercet.models.llm.vllm.engine import Engine
    from tercet.models.llm.wire import Wire

# Prefix of the folder of a run's server in the store's scratch.
ENGINE = "engine-"
# Number of requests looked up in the pool at once.
_BLOCK = 4096


@dataclass(frozen=True)
class _Answerer:
    """Who answers a step: a model of the step's config, and the directory of its files."""

    config: Any
    who: Identity
    folder: Path | None


class LlmSession:
    """Sends the requests of one run's steps; threads may share it."""

    def __init__(
        self, store: Store, recipe: Recipe, run_id: str, say: Callable[[str], None]
    ) -> None:
        self._store = store
        self._settings: AskingSettings = recipe.run.llm
        self._device, self._batch_size = recipe.run.device, recipe.run.batch_size
        self._run_id = run_id
        self._say = say
        self._pool: Pool = open_pool(store, recipe.name, run_id)
        self._lock = threading.Lock()
        self._client: Client | Local | None = None
        # The digest of the model behind the client; one model is up at a time.
        self._serves = ""
        self._engine: Engine | None = None
        self._fault: Exception | None = None
        self._told: list[StageWarning] = []
        self._turn = threading.Lock()
        self._turns: dict[str, tuple[int, ExitStack]] = {}
        self._folder = store.work / "scratch" / f"{ENGINE}{run_id}"
        _sweep(store)

    def begin(self) -> None:
        """Clears an earlier failure so that the step is tried again."""
        if self._fault is not None:
            self.release()
            self._fault = None

    def asking(self, config: Any, components: Mapping[str, Any], models: Mapping[str, Path]) -> Ask:
        """The function with which the parts of a step ask.

        config, components: the step's, the latter of its fingerprint. models: directories by slot.
        """
        answerer = _Answerer(
            config, identity(config, components), next(iter(models.values()), None)
        )

        def ask(method: str, requests: Iterable[Request]) -> Iterator[Answer]:
            return self._ask(answerer, method, requests)

        return ask

    def warnings(self) -> Iterator[StageWarning]:
        """Warnings, since the last call, about endpoints that are not well."""
        from tercet.models.llm.client.client import Client

        warnings, self._told = self._told, []
        yield from warnings
        if self._settings.endpoints and isinstance(self._client, Client):
            for tally in self._client.tallies():
                yield from find_fruitless(tally)

    def cancel(self) -> None:
        """Fails every pending request, and aborts a server that is starting."""
        self._fault = self._fault or Stopped("lost", "Asking was cancelled.")
        engine, client = self._engine, self._client
        if engine is not None and client is None:
            engine.cancel()
        if client is not None:
            client.close()

    def release(self) -> None:
        """Ends client and server, or the local model, to free the memory for the next stage."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Stops everything; the answers are in the pool."""
        try:
            self.release()
        finally:
            self._pool.close()

    def _end(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.stop()
            if self._fault is None:
                # The folder of a failed server stays, since the error names the log in it.
                shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(
        self, answerer: _Answerer, method: str, requests: Iterable[Request]
    ) -> Iterator[Answer]:
        recalled: deque[Answer] = deque()
        with ExitStack() as turn:
            keyed = digested(requests, method, answerer.config, answerer.who)
            open_ = self._unanswered(keyed, recalled, method, answerer.who, turn)
            first = next(open_, None)
            while recalled:
                yield recalled.popleft()
            if first is None:
                return
            self._check_ceilings()
            for answer in self._ready(answerer).ask(chain([first], open_)):
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
        """The requests without an answer in the pool; answers from the pool go to `recalled`.

        Before the first such request this run takes a lock on the model and method, so that two
        concurrent runs do not both pay for the same answers.
        """
        waited = False
        while block := list(islice(requests, _BLOCK)):
            digests = [request.digest for request in block]
            responses = self._pool.find(digests)
            if not waited and len(responses) < len(set(digests)):
                waited = True
                turn.enter_context(self._alone(f"asking-{method}-{who.digest}"))
                responses = self._pool.find(digests)
            for request in block:
                response = responses.get(request.digest)
                if response is None:
                    yield request
                else:
                    recalled.append(_recalled(request, response))

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

    def _ready(self, answerer: _Answerer) -> "Client | Local":
        """The client of this model, with a running server, or the model in this process."""
        with self._lock:
            # A model that failed for one part is not started again for the next part.
            self._raise_fault()
            if self._client is not None and self._serves != answerer.who.digest:
                self._end()
            if self._client is None:
                try:
                    self._client = self._connected(answerer)
                except Exception as error:
                    self._fault = error
                    raise
                self._serves = answerer.who.digest
                if self._fault is not None:
                    # The run was cancelled before there was a client to close.
                    self._end()
                    raise self._fault
            return self._client

    def _connected(self, answerer: _Answerer) -> "Client | Local":
        config, folder = answerer.config, answerer.folder
        decoding = decoding_of(config)
        if decoding is None:
            return self._asked(answerer, config.llm, folder)
        assert folder is not None
        if decoding.backend == "vllm":
            llm, look = served(config, folder)
            return self._served(answerer, llm, look)
        from tercet.models.generators.generator import Local

        on = device(self._device)
        self._say(f"{answerer.who.label} writes here, on {on}")
        return Local(
            folder,
            config.precision,
            on,
            answerer.who.label,
            self._batch_size,
            self._recording(answerer),
        )

    def _asked(self, answerer: _Answerer, llm: LlmSettings, folder: Path | None) -> "Client":
        """A client of the recipe's endpoints or, without any, of a server of ours."""
        from tercet.models.llm.client.client import Client
        from tercet.models.llm.connect import difference, find_endpoints, has_chat_template
        from tercet.models.llm.wire import Wire

        settings = self._settings
        wire = Wire(llm.api, template_kwargs=llm.template_kwargs, send=llm.send)
        if settings.endpoints:
            reached = find_endpoints(settings, llm)
            for absent in (one.absent for one in reached if one.absent is not None):
                self._say(f"{str(absent).removesuffix('.')}. The others are asked meanwhile.")
            if (clause := difference(reached)) is not None:
                row = {"difference": clause, "count": 2, "total": len(reached)}
                self._told.append(UNLIKE.warning(row))
            endpoints = [one.endpoint for one in reached]
            record = self._recording(answerer)
            return Client(endpoints, wire, settings, answerer.who.label, record, _nothing)
        assert folder is not None
        if llm.api == "chat" and not has_chat_template(folder):
            # Report this before a server is started for nothing.
            raise Unusable(
                "unfit_model",
                f"The model {folder} has no chat template: set llm.api: completions, or use a chat "
                "model.",
            )
        return self._served(answerer, llm, wire)

    def _served(self, answerer: _Answerer, llm: LlmSettings, wire: "Wire") -> "Client":
        """A client of a server of ours, which is started. wire: how its requests look."""
        from tercet.models.llm.client.client import Client
        from tercet.models.llm.client.exchange import Endpoint
        from tercet.models.llm.vllm.engine import Engine

        assert answerer.folder is not None
        engine = self._settings.engine
        self._engine = Engine(answerer.folder, llm, engine, self._folder, self._say)
        url = self._engine.start()
        endpoints = [Endpoint(url, self._engine.name, None)]
        # The server may be restarting; `check` raises once it is dead for good.
        patience = max(self._settings.patience, engine.start_seconds)
        settings = self._settings.model_copy(update={"patience": patience})
        check, label = self._engine.check, answerer.who.label
        return Client(endpoints, wire, settings, label, self._recording(answerer), check)

    def _recording(self, answerer: _Answerer) -> Callable[[Request, Answer], None]:
        """Stores an answer before anything else sees it. Raises Stopped at a ceiling."""

        def record(request: Request, answer: Answer) -> None:
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
                    "cost": cost(
                        self._settings, answerer.config, answer.prompt_tokens, answer.n_tokens
                    ),
                    "error": answer.error,
                }
            )
            self._check_ceilings()

        return record

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
            "limit",
            f"The ceiling run.llm.{reached} spent on {spent.answers:,} answers, which are kept. "
            "Raise it to continue.",
        )


def _recalled(request: Request, response: Response) -> Answer:
    return Answer(
        request.place,
        request.digest,
        response.model,
        response.raw,
        response.finish_reason,
        response.prompt_tokens,
        response.n_tokens,
        response.attempts,
        response.seconds,
        response.endpoint,
    )


def _sweep(store: Store) -> None:
    """Removes the remains of killed runs' servers, except servers that still run."""
    for folder in (store.work / "scratch").glob(f"{ENGINE}*"):
        if locks.is_held(store, f"run-{folder.name.removeprefix(ENGINE)}"):
            # The run may be in another container, whose process ids mean nothing here.
            continue
        try:
            pids = json.loads((folder / "vllm.json").read_text())
        except (OSError, ValueError):
            continue
        # The file also holds a port, whose number may be some other process's id.
        ours = [pids.get(name) for name in ("server", "supervisor")]
        if not any(locks.alive(pid) for pid in ours if isinstance(pid, int)):
            shutil.rmtree(folder, ignore_errors=True)


def _nothing() -> None:
    """An endpoint that we did not start: its answers show whether it is up."""
