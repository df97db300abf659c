"""Requests to a language model, and its answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tercet.models.llm.settings import Sampling


class Shot(NamedTuple):
    """A worked example: a rendered prompt and its correct answer."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Request:
    """A request.

    place: the caller's number of the request, which the answer repeats.
    prompt: the rendered text: in a chat the user's last message, else the text to be continued.
    seed: the row's seed, which makes two requests with the same prompt different.
    schema: JSON schema of the answer; None for free text.
    source: the sentence within the prompt; only this part may be cut if the layout of a fitted
        generator leaves too little room.
    shots: worked examples before the prompt. All rows of a step have the same examples, so that a
        server reads them once.
    method, digest: the method's name, and the answer's key in the store's pool; filled in by the
        pool, empty before.
    """

    place: int
    prompt: str
    sampling: Sampling
    seed: int
    schema: Mapping[str, Any] | None = None
    source: str = ""
    shots: tuple[Shot, ...] = ()
    method: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer to a request, or its failure.

    raw: the model's text verbatim; "" if the request failed.
    finish_reason: stop, length (cut off by max_tokens), or failed.
    prompt_tokens, n_tokens: tokens of prompt and answer.
    attempts: how often the request was sent. seconds: from the first attempt to the answer.
    endpoint: the endpoint's address, without secrets. error: why the request failed, else None.
    """

    place: int
    digest: str
    model: str
    raw: str
    finish_reason: str
    prompt_tokens: int
    n_tokens: int
    attempts: int
    seconds: float
    endpoint: str
    error: str | None = None


# From (method, requests) to the answers as they arrive, including failures; answers in the pool are
# reused. Raises Stopped and Unusable.
Ask: TypeAlias = Callable[[str, Iterable[Request]], Iterator[Answer]]
