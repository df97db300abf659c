"""Which endpoints a recipe's `llm` and `run.llm` mean, and how requests to them look."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.client import Endpoint
from tercet.models.llm.client.exchange import never_to_be_had, no_proxy
from tercet.models.llm.messages import Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.wire import Wire, turns

if TYPE_CHECKING:
    import httpx

_SECONDS = 10.0
# What servers say of a model besides its name: vLLM the first two, llama.cpp the others.
_ABOUT = ("root", "max_model_len", "n_params", "n_vocab")

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Found:
    """An endpoint as it was found when a run began to ask.

    about: what it says of its model besides the name. absent: why it does not answer, if so: it is
    taken to serve what the others serve, and is asked once it answers.
    """

    endpoint: Endpoint
    about: Mapping[str, Any]
    absent: Stopped | Unusable | None = None


def find_endpoints(settings: AskingSettings, llm: LlmSettings) -> list[Found]:
    """The endpoints of the recipe, each with its own name for the model.

    A model that the recipe gives as files may have any name there, and of several endpoints some
    may serve another model by the same name: each is asked. Raises Unusable if one serves several
    models or none, or for a malformed key; the fault of the first if none answers and their name
    for the model is not known.
    """
    key = _key(settings.key_env)
    found = [Found(Endpoint(url, llm.name or "", key), {}) for url in settings.endpoints]
    if llm.name is not None and len(found) == 1:
        return found
    found = _at_once(lambda one: _looked_at(one.endpoint, settings.key_env), found)
    name = llm.name or next((one.endpoint.model for one in found if one.absent is None), None)
    if name is None:
        assert found[0].absent is not None
        raise found[0].absent
    return [
        replace(one, endpoint=replace(one.endpoint, model=name)) if one.absent else one
        for one in found
    ]


def difference(found: Sequence[Found]) -> str | None:
    """The first two endpoints that say different things of the one model, as a clause."""
    for one, other in combinations(found, 2):
        for what in _ABOUT:
            known = one.about.get(what), other.about.get(what)
            if None not in known and known[0] != known[1]:
                return (
                    f"{one.endpoint.shown} serves {one.endpoint.model!r} with {what} {known[0]}, "
                    f"and {other.endpoint.shown} {other.endpoint.model!r} with {known[1]}"
                )
    return None


def _key(key_env: str) -> str | None:
    key = os.environ.get(key_env, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise Unusable(
            "bad_value",
            f"The key in the environment variable {key_env} holds characters that no header can"
            " carry: set it again, as one line of printable ASCII.",
        )
    return key or None


def wire(llm: LlmSettings, model: Path | None, served: Sequence[Endpoint]) -> Wire:
    """How requests look: lists of prompts, which are faster, wherever they surely mean the same.

    A list needs the completions API. For a chat model only vLLM is asked that way, with the
    template of the model's own files applied here; other servers might add tokens to it.
    """
    if llm.api == "completions":
        return Wire("completions", lists=True, send=llm.send)
    # What an absent one is shows when it answers: until then it is taken to be like the others.
    if model is not None and {*_at_once(_is_vllm, served)} - {None} == {True}:
        render = chat_renderer(model, llm.template_kwargs)
        return Wire("completions", lists=True, render=render, send=llm.send)
    return Wire("chat", template_kwargs=llm.template_kwargs, send=llm.send)


def _at_once(look: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """The same for each, side by side, since one that does not answer takes its time."""
    with ThreadPoolExecutor(32) as threads:
        return list(threads.map(look, items))


def _looked_at(endpoint: Endpoint, key_env: str) -> Found:
    """The endpoint with the one model that it serves or, if it has a name, what it says of that.

    An endpoint whose model is known by name needs no list of models.
    """
    try:
        status, answer = _get(endpoint, endpoint.at("/models"))
    except (Stopped, Unusable) as error:
        return Found(endpoint, {}, error)
    if status >= 500:
        said = f"The endpoint {endpoint.shown} answers HTTP {status} at /models: start what is"
        return Found(
            endpoint, {}, Stopped("unreachable", f"{said} behind it, or correct run.llm.endpoints.")
        )
    listed = answer.get("data") if isinstance(answer, dict) else None
    models = {
        str(entry["id"]): entry
        for entry in (listed if isinstance(listed, list) else ())
        # vLLM lists LoRA adapters as models that have a parent.
        if isinstance(entry, dict) and entry.get("id")
    }
    if endpoint.model:
        return Found(endpoint, _about(models.get(endpoint.model, {})))
    names = [name for name, entry in models.items() if not entry.get("parent")]
    if status in (401, 403):
        raise Unusable(
            "refused",
            f"The endpoint {endpoint.shown} refuses the key: put the right one into the environment"
            f" variable {key_env}.",
        )
    if status != 200 or len(names) != 1:
        said = f"lists {len(names)} models" if status == 200 else f"answers HTTP {status}"
        raise Unusable(
            "unreachable",
            f"The endpoint {endpoint.shown} {said} at /models: name the one you mean as llm.name,"
            " and check that the address ends in /v1.",
        )
    return Found(replace(endpoint, model=names[0]), _about(models[names[0]]))


def _about(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What tells models of one name apart; of a path its last name, since folders differ."""
    meta = entry.get("meta")
    known = {**entry, **meta} if isinstance(meta, dict) else entry
    said = {what: known[what] for what in _ABOUT if isinstance(known.get(what), str | int)}
    if "root" in said:
        said["root"] = str(said["root"]).rstrip("/").rpartition("/")[2]
    return said


def _is_vllm(endpoint: Endpoint) -> bool | None:
    """Whether it is vLLM; None if it does not answer."""
    try:
        status, answer = _get(endpoint, endpoint.beside("/version"))
    except (Stopped, Unusable):
        return None
    if status >= 500:
        return None
    return status == 200 and isinstance(answer, dict) and "version" in answer


def _get(endpoint: Endpoint, url: "httpx.URL") -> tuple[int, Any]:
    """Status and JSON of a page; None if it is not JSON.

    Raises Stopped if nothing answers, Unusable if nothing ever can.
    """
    import httpx

    headers = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
    # A proxy from the environment is for other hosts.
    inside = url.host in ("127.0.0.1", "localhost", "::1")
    try:
        found = httpx.get(url, headers=headers, timeout=_SECONDS, trust_env=not inside)
    except httpx.HTTPError as error:
        raise never_to_be_had(error, endpoint) or Stopped(
            "unreachable",
            f"The endpoint {endpoint.shown} does not answer ({type(error).__name__}): "
            "start it, or correct run.llm.endpoints.",
        ) from None
    except (ImportError, ValueError) as error:
        raise no_proxy(error) from None
    try:
        return found.status_code, found.json()
    except (ValueError, RecursionError):
        return found.status_code, None


_FILES = ("chat_template.jinja", "chat_template.json")
_FOLDER = "additional_chat_templates"


def has_chat_template(model: Path) -> bool:
    """Whether a model's directory holds a chat template. Nothing is loaded."""
    if any((model / name).is_file() for name in _FILES) or (model / _FOLDER).is_dir():
        return True
    try:
        config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))


def chat_renderer(
    model: Path, template_kwargs: Mapping[str, Any]
) -> Callable[[Sequence[Request]], list[str]]:
    """A function from requests to what the model continues: each is a chat.

    The texts contain the template's special tokens, so no others may be added.

    template_kwargs: further variables of the template.

    Raises: Unusable when the model has no template or no tokenizer; the returned function raises
        it when the template does not take a message.
    """
    from transformers import AutoTokenizer

    if not has_chat_template(model):
        raise Unusable(
            "unfit_model",
            f"The model {model} has no chat template: set llm.api: completions, or use a chat "
            "model.",
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise Unusable("unreadable", f"The tokenizer of {model} cannot be read: {reason}") from None

    def render(requests: Sequence[Request]) -> list[str]:
        if not requests:
            return []
        chats = [turns(request) for request in requests]
        try:
            texts: list[str] = tokenizer.apply_chat_template(
                chats, tokenize=False, add_generation_prompt=True, **template_kwargs
            )
        except Exception as error:
            raise Unusable(
                "unreadable",
                f"The chat template of {model} fails ({type(error).__name__}: {error}): check "
                "llm.template_kwargs, or set llm.api: completions.",
            ) from None
        return texts

    return render
