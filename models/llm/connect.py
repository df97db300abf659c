"""Whom a recipe's `llm` and `run.llm` mean, and how requests to them look."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tercet.models.llm.client import Endpoint
from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.settings import AskingSettings, LlmSettings
from tercet.models.llm.wire import Wire

_SECONDS = 10.0


def endpoints(settings: AskingSettings, llm: LlmSettings) -> list[Endpoint]:
    """The endpoints of the recipe, each with the name that it calls the model by.

    A model that the recipe gives as files may be called anything there: each endpoint is asked.
    Raises Unusable where one is asked and serves several models or none, Stopped where it is down.
    """
    key = os.environ.get(settings.key_env) or None
    found = []
    for address in settings.endpoints:
        url = address.rstrip("/")
        name = llm.name or _served(url, key, settings.key_env)
        found.append(Endpoint(url, name, key))
    return found


def wire(llm: LlmSettings, model: Path | None, served: Sequence[Endpoint]) -> Wire:
    """How requests look: lists of prompts wherever they are sure to say the same, as the quicker.

    A list needs the completions API. What a chat model is asked goes that way to vLLM alone, with
    the template of the model's own files filled in here; other servers might add tokens to it.
    """
    if llm.api == "completions":
        return Wire("completions", lists=True)
    if model is not None and all(_is_vllm(endpoint) for endpoint in served):
        from tercet.models.llm.chat_template import chat_renderer

        render = chat_renderer(model, llm.template_kwargs)
        return Wire("completions", lists=True, render=render)
    return Wire("chat", template_kwargs=llm.template_kwargs)


def _served(url: str, key: str | None, key_env: str) -> str:
    """The name of the one model that an endpoint serves."""
    status, answer = _get(f"{url}/models", key)
    if status in (401, 403):
        raise Unusable(
            f"The endpoint {url} refuses the key: put the right one into the environment "
            f"variable {key_env}."
        )
    listed = answer.get("data") if isinstance(answer, dict) else None
    names = [
        str(entry["id"])
        for entry in (listed if isinstance(listed, list) else ())
        # vLLM lists LoRA adapters as models that have a parent.
        if isinstance(entry, dict) and entry.get("id") and not entry.get("parent")
    ]
    if status != 200 or len(names) != 1:
        said = f"lists {len(names)} models" if status == 200 else f"answers HTTP {status}"
        raise Unusable(
            f"The endpoint {url} {said} at /models: say which one you mean as llm.name, and check "
            "that the address ends in /v1."
        )
    return names[0]


def _is_vllm(endpoint: Endpoint) -> bool:
    status, answer = _get(f"{endpoint.url.removesuffix('/v1')}/version", endpoint.key)
    return status == 200 and isinstance(answer, dict) and "version" in answer


def _get(url: str, key: str | None) -> tuple[int, Any]:
    """Status and JSON of a page; None for what is no JSON. Raises Stopped if nobody answers."""
    import httpx

    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        # A proxy of the environment is for the world outside.
        inside = httpx.URL(url).host in ("127.0.0.1", "localhost", "::1")
        found = httpx.get(url, headers=headers, timeout=_SECONDS, trust_env=not inside)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Stopped(
            f"The endpoint {url.rpartition('/')[0]} does not answer ({type(error).__name__}): "
            "start it, or mend run.llm.endpoints."
        ) from None
    try:
        return found.status_code, found.json()
    except ValueError:
        return found.status_code, None
