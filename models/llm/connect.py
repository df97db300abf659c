"""Which endpoints a recipe's `llm` and `run.llm` mean, and how requests to them look."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.models.llm.client.client import Endpoint
from tercet.models.llm.client.exchange import never_to_be_had, no_proxy
from tercet.models.llm.errors import Stopped, Unusable
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.wire import Wire

if TYPE_CHECKING:
    import httpx

_SECONDS = 10.0


def endpoints(settings: AskingSettings, llm: LlmSettings) -> list[Endpoint]:
    """The endpoints of the recipe, each with its own name for the model.

    A model that the recipe gives as files may have any name there: each endpoint is asked. Raises
    Unusable if one serves several models or none, or for a malformed key; Stopped if an endpoint is
    down.
    """
    key = _key(settings.key_env)
    found = []
    for address in settings.endpoints:
        endpoint = Endpoint(address, llm.name or "", key)
        if llm.name is None:
            endpoint = replace(endpoint, model=_served(endpoint, settings.key_env))
        found.append(endpoint)
    return found


def _key(key_env: str) -> str | None:
    key = os.environ.get(key_env, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise Unusable(
            f"The key in the environment variable {key_env} holds characters that no header can"
            " carry: set it again, as one line of printable ASCII."
        )
    return key or None


def wire(llm: LlmSettings, model: Path | None, served: Sequence[Endpoint]) -> Wire:
    """How requests look: lists of prompts, which are faster, wherever they surely mean the same.

    A list needs the completions API. For a chat model only vLLM is asked that way, with the
    template of the model's own files applied here; other servers might add tokens to it.
    """
    if llm.api == "completions":
        return Wire("completions", lists=True)
    if model is not None and all(_is_vllm(endpoint) for endpoint in served):
        from tercet.models.llm.chat_template import chat_renderer

        render = chat_renderer(model, llm.template_kwargs)
        return Wire("completions", lists=True, render=render)
    return Wire("chat", template_kwargs=llm.template_kwargs)


def _served(endpoint: Endpoint, key_env: str) -> str:
    """The name of the one model that an endpoint serves."""
    status, answer = _get(endpoint, endpoint.at("/models"))
    if status in (401, 403):
        raise Unusable(
            f"The endpoint {endpoint.shown} refuses the key: put the right one into the environment"
            f" variable {key_env}."
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
            f"The endpoint {endpoint.shown} {said} at /models: name the one you mean as llm.name,"
            " and check that the address ends in /v1."
        )
    return names[0]


def _is_vllm(endpoint: Endpoint) -> bool:
    status, answer = _get(endpoint, endpoint.beside("/version"))
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
            f"The endpoint {endpoint.shown} does not answer ({type(error).__name__}): "
            "start it, or correct run.llm.endpoints."
        ) from None
    except (ImportError, ValueError) as error:
        raise no_proxy(error) from None
    try:
        return found.status_code, found.json()
    except (ValueError, RecursionError):
        return found.status_code, None
