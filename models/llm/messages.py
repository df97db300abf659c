"""What is asked of a language model, and what it answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tercet.models.llm.settings import Sampling


class Shot(NamedTuple):
    """A worked example: a prompt, rendered as those that are asked, and its right answer."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Request:
    """One thing to ask.

    place: the caller's own number for it, which the answer carries.
    prompt: the rendered text: in a chat the user's last message, else the text to be continued.
    seed: the row's, so that one prompt asked twice on purpose is two requests.
    schema: JSON schema that the answer must follow; None for free text.
    source: the sentence within the prompt, which alone may be cut where the model's own layout
        leaves too little room.
    shots: what comes before it, the same for all rows of a step, so that a server reads it once.
    method, digest: what it is asked for, and the answer's key in the store's pool; the caller
        leaves them empty, and whoever keeps the pool fills them in.
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
    """What came of one request.

    raw: what the model said, word for word; "" if the request failed.
    finish_reason: stop, length (cut off by max_tokens), or failed.
    prompt_tokens, n_tokens: of prompt and answer.
    attempts: how often it was sent. seconds: from the first attempt to the answer.
    endpoint: where it came from, without secrets. error: why the request failed, in words.
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


# (method, requests) to their answers as they arrive, failed ones included; what the pool has is
# not asked again. Raises Stopped and Unusable.
Ask: TypeAlias = Callable[[str, Iterable[Request]], Iterator[Answer]]
