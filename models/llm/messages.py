"""What is asked of a language model, and what it answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tercet.models.llm.settings import Sampling


@dataclass(frozen=True)
class Request:
    """One thing to ask.

    place: the asker's own number for it, which its answer carries.
    prompt: the rendered text: of a chat the user's one message, else the text to be continued.
    seed: the row's, so that one prompt asked twice on purpose is two requests.
    schema: JSON schema that the answer must keep; None for free text.
    method, digest: for what it is asked, and the answer's key in the store's pool; the asker
        leaves them empty, and whoever keeps the pool fills them.
    """

    place: int
    prompt: str
    sampling: Sampling
    seed: int
    schema: Mapping[str, Any] | None = None
    method: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Answer:
    """What came of one request.

    raw: what the model said, word for word; "" where asking failed.
    finish_reason: stop, length (cut off by max_tokens), or failed.
    prompt_tokens, n_tokens: of prompt and answer. Where prompts went out in one list the server
        tells the list's totals alone: they are shared out by length, so that sums are exact.
    attempts: how often it was sent. seconds: from first sending to the answer.
    endpoint: whom it came from, without secrets. error: why asking failed, in words.
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


# (method, requests) to their answers in the order in which they come, failed ones among
# them; answers that the pool has are not asked again. Raises Stopped and Unusable.
Ask: TypeAlias = Callable[[str, Iterable[Request]], Iterator[Answer]]
