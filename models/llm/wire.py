"""Format of requests and answers of an OpenAI-compatible endpoint.

There are three formats, one `Wire` each:

- `chat`: through the endpoint's chat template, with the shots as turns and the prompt as the user's
  last message.
- `completions` for a base model: shots and prompt as one text, each prompt followed by `ANSWER`. A
  base model continues its input: after a prompt that ends in a sentence it would continue that
  sentence, so the word that announces the answer must be last. `STOP` ends the answer at the first
  blank line, after which the model would invent the next task; prompts ask for one paragraph.
- `completions` with `render`: the token ids that a fitted generator reads. The server adds no
  special tokens. Text is not sent, since the name of a special token in it would be read as that
  token.

No seed is sent: a server's samples depend on the batch anyway, and vLLM is slower with a generator
per row. Answers are stored, and never requested again.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Parameter
from tercet.models.prompted.wording import OPEN_THOUGHT, THOUGHTS
from tercet.models.text.words import fold

# A prompt as sent: text, or token ids.
Text: TypeAlias = str | list[int]

ANSWER = "\n\nAnswer:"
STOP = ("\n\n",)
# Characters per token in English prose, for servers that report no token counts.
_CHARACTERS = 4
# Token counts above this are wrong: no model has such a context.
_MOST_TOKENS = 10**7
# Fields with a model's thoughts; the final answer is in `content`.
_REASONING = ("reasoning_content", "reasoning", "thinking")
_UNCLOSED = rf"(?s){OPEN_THOUGHT}.*"
# Messages about an unknown parameter, or an unknown value of it.
_UNTAKEN = re.compile(
    r"(?i)unsupported|not support|unrecognized|unknown|unexpected|deprecated"
    r"|not permitted|not allowed|cannot both"
)
# Finish reasons of answers that the server aborted.
_BROKEN = ("abort", "error")


class Malformed(Exception):
    """The body of a response violates the API; the message describes it in a few words."""


class Withheld(Exception):
    """The endpoint's content filter withheld the answer."""


@dataclass(frozen=True)
class Completion:
    """The answer to one prompt. finish_reason: stop or length.

    prompt_tokens, n_tokens: tokens of prompt and answer. lacks: description of an answer without a
    text; "" if there is a text.
    """

    raw: str
    finish_reason: str
    prompt_tokens: int
    n_tokens: int
    lacks: str = ""


@dataclass(frozen=True)
class Wire:
    """One of the three formats.

    render: turns requests into the token ids that a fitted generator reads; None: the endpoint's
        template (chat) or none (a base model).
    template_kwargs: variables of the endpoint's chat template.
    max_tokens: upper bound on the tokens of an answer, set by the model; None: no bound.
    send: the endpoint's names of parameters; None: leave the parameter out.
    """

    kind: Literal["chat", "completions"]
    render: Callable[[Sequence[Request]], Sequence[Text]] | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    send: Mapping[Parameter, str | None] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path after the endpoint's /v1."""
        return "/chat/completions" if self.kind == "chat" else "/completions"

    def texts(self, requests: Sequence[Request]) -> Sequence[Text]:
        """The prompts to send for these requests; in a chat, the last messages."""
        if self.kind == "chat":
            return [request.prompt for request in requests]
        if self.render is not None:
            return self.render(requests)
        return [_continued(request) for request in requests]

    def body(self, model: str, request: Request, text: Text) -> dict[str, Any]:
        """The body of a request for `text`, with the sampling and schema of `request`."""
        body = self._body(model, request, text).items()
        names: Mapping[Any, str | None] = self.send
        return {name: value for key, value in body if (name := names.get(key, key)) is not None}

    def _body(self, model: str, request: Request, text: Text) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": min(sampling.max_tokens, self.max_tokens or sampling.max_tokens),
        }
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request.schema, "strict": True},
            }
        if self.kind == "chat":
            body["messages"] = turns(request)
            if self.template_kwargs:
                body["chat_template_kwargs"] = dict(self.template_kwargs)
            return body
        body["prompt"] = text
        if self.render is not None:
            body["add_special_tokens"] = False
        elif request.schema is None:
            body["stop"] = list(STOP)
        return body

    def read(self, payload: bytes, text: Text) -> Completion:
        """The answer to `text`. Raises Malformed and Withheld."""
        answer = _object(payload)
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise Malformed("an answer without choices")
        if len(choices) != 1:
            raise Malformed(f"{len(choices)} choices for one prompt")
        if not isinstance(choices[0], dict):
            raise Malformed("a choice that is not an object")
        raw, finish, lacks = self._parsed(choices[0])
        usage = answer.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        prompt_tokens, answer_tokens = counts.get("prompt_tokens"), counts.get("completion_tokens")
        return Completion(
            raw, finish, _tokens(prompt_tokens, text), _tokens(answer_tokens, raw), lacks
        )

    def _parsed(self, choice: Mapping[str, Any]) -> tuple[str, str, str]:
        """Text, finish reason and `lacks` of a choice."""
        reason = choice.get("finish_reason")
        if reason in _BROKEN:
            raise Malformed(f"an answer aborted by the server ({reason})")
        if reason == "content_filter":
            raise Withheld("the endpoint withheld the answer (content_filter)")
        if self.kind == "chat":
            message = choice.get("message")
            if not isinstance(message, dict):
                raise Malformed("a choice without a message")
            raw = _of_parts(message.get("content"))
        else:
            message, raw = choice, choice.get("text")
        raw = "" if raw is None else raw
        if not isinstance(raw, str):
            raise Malformed("a choice without a text")
        # JSON may have lone surrogates, which neither a file nor a column can hold.
        raw = raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        finish = "length" if reason == "length" else "stop"
        return raw, finish, "" if _answer(raw) else _lacks(message, raw, finish)


def _answer(raw: str) -> str:
    """The answer after a thought; "" if the thought does not end."""
    return fold(re.sub(_UNCLOSED, "", re.sub(THOUGHTS, "", raw)))


def turns(request: Request) -> list[dict[str, str]]:
    """The messages of a chat: user and assistant for each shot, then the prompt."""
    messages = [("user", request.prompt)]
    for shot in reversed(request.shots):
        messages = [("user", shot.prompt), ("assistant", shot.answer), *messages]
    return [{"role": role, "content": content} for role, content in messages]


def _continued(request: Request) -> str:
    """The text for a base model; each answer of a shot ends with the blank line of `STOP`."""
    shots = [f"{shot.prompt}{ANSWER} {shot.answer}\n\n" for shot in request.shots]
    return "".join([*shots, request.prompt, ANSWER])


def _of_parts(content: object) -> object:
    """The joined text parts of an answer; some servers put thoughts into other parts."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part.get("text") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _lacks(message: Mapping[str, Any], raw: str, finish: str) -> str:
    """A description of an answer without a text."""
    if message.get("tool_calls") or message.get("function_call"):
        return "an answer without text, but with a call of a tool"
    if message.get("refusal"):
        return "an answer without text, but with a refusal"
    if fold(raw) or any(message.get(name) for name in _REASONING):
        room = ": raise max_tokens" if finish == "length" else ""
        return f"an answer of nothing but thoughts{room}"
    return "an answer without text"


def message(payload: bytes, secret: str | None = None) -> str:
    """The message of a server's error, else its body, in one line of at most 200 characters.

    secret: masked in the message.
    """
    try:
        answer = _object(payload)
    except Malformed:
        text = payload.decode("utf-8", "replace")
    else:
        error = answer.get("error", answer)
        inner = error.get("message", error.get("detail")) if isinstance(error, dict) else error
        text = inner if isinstance(inner, str) else json.dumps(inner or answer)
    if secret:
        text = text.replace(secret, "…")
    return fold(text)[:200]


def misfits(payload: bytes, body: Mapping[str, Any]) -> dict[Parameter, str | None]:
    """The parameter of a body that a server's error rejects, with the server's own name for it (or
    None); empty if it rejects none."""
    error = _error(payload)
    text = f"{message(payload)} {error.get('param') if isinstance(error, dict) else ''}"
    if not _UNTAKEN.search(text):
        return {}
    parameters: Sequence[Parameter] = get_args(Parameter)
    named = [key for key in parameters if key in body and re.search(rf"\b{key}\b", text)]
    other = "max_completion_tokens"
    return {key: other if key == "max_tokens" and other in text else None for key in named[:1]}


def error_message(payload: bytes, secret: str | None = None) -> str:
    """The message of an error in a response with status 200; "" if there is none."""
    return message(payload, secret) if _error(payload) else ""


def _error(payload: bytes) -> Any:
    """The field `error` of a JSON object, else None."""
    try:
        return _object(payload).get("error")
    except Malformed:
        return None


def _object(payload: bytes) -> dict[str, Any]:
    if not payload.strip():
        raise Malformed("an empty body")
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        raise Malformed(f"a body of {len(payload)} bytes that is not JSON") from None
    if not isinstance(answer, dict):
        raise Malformed("a body that is not a JSON object")
    return answer


def _tokens(count: object, text: Text) -> int:
    """The server's token count if it is plausible, else an estimate."""
    if type(count) is int and 0 <= count <= _MOST_TOKENS:
        return count
    return len(text) if isinstance(text, list) else -(-len(text) // _CHARACTERS)
