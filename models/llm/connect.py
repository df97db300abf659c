"""Finds the endpoints of a recipe's `llm` and `run.llm`, and the models that they serve."""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.exchange import Endpoint, never_to_be_had, no_proxy
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings

_SECONDS = 10.0
# Properties of a model in the list of models: vLLM gives the first two, llama.cpp the last two.
_ABOUT = ("root", "max_model_len", "n_params", "n_vocab")


@dataclass(frozen=True)
class ServedModel:
    """An endpoint at the beginning of a run.

    about: properties of its model besides the name. absent: why it does not answer, else None; the
    endpoint is then assumed to serve the same model as the rest, and used once it answers.
    """

    endpoint: Endpoint
    about: Mapping[str, Any]
    absent: Stopped | Unusable | None = None


def find_endpoints(settings: AskingSettings, llm: LlmSettings) -> list[ServedModel]:
    """The endpoints of the recipe, each with its own name for the model.

    Each endpoint is asked for its models, since it may have any name for a model that the recipe
    gives as files, and several endpoints may serve different models by the same name.

    Raises: Unusable if an endpoint serves several models or none, or for a malformed key; the first
        endpoint's error if none answers and the model's name is not known.
    """
    key = _key(settings.key_env)
    endpoints = [ServedModel(Endpoint(url, llm.name or "", key), {}) for url in settings.endpoints]
    if llm.name is not None and len(endpoints) == 1:
        return endpoints
    # In parallel, since an endpoint that does not answer takes long.
    with ThreadPoolExecutor(32) as threads:
        looks = [threads.submit(_inspected, one.endpoint, settings.key_env) for one in endpoints]
    endpoints = [look.result() for look in looks]
    name = llm.name or next((one.endpoint.model for one in endpoints if one.absent is None), None)
    if name is None:
        assert endpoints[0].absent is not None
        raise endpoints[0].absent
    return [
        replace(one, endpoint=replace(one.endpoint, model=name)) if one.absent else one
        for one in endpoints
    ]


def difference(endpoints: Sequence[ServedModel]) -> str | None:
    """The first two endpoints with different properties of the model, as a clause; else None."""
    for one, other in combinations(endpoints, 2):
        for what in _ABOUT:
            values = one.about.get(what), other.about.get(what)
            if None not in values and values[0] != values[1]:
                return (
                    f"{one.endpoint.shown} serves {one.endpoint.model!r} with {what} {values[0]}, "
                    f"and {other.endpoint.shown} {other.endpoint.model!r} with {values[1]}"
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


def _inspected(endpoint: Endpoint, key_env: str) -> ServedModel:
    """The endpoint with its only model, or with the properties of the model that it names.

    An endpoint with a model's name may have no list of models.
    """
    try:
        status, answer = _get(endpoint)
    except (Stopped, Unusable) as error:
        return ServedModel(endpoint, {}, error)
    if status >= 500:
        message = f"The endpoint {endpoint.shown} answers HTTP {status} at /models: start what is"
        return ServedModel(
            endpoint,
            {},
            Stopped("unreachable", f"{message} behind it, or correct run.llm.endpoints."),
        )
    listed = answer.get("data") if isinstance(answer, dict) else None
    models = {
        str(entry["id"]): entry
        for entry in (listed if isinstance(listed, list) else ())
        # vLLM lists LoRA adapters as models that have a parent.
        if isinstance(entry, dict) and entry.get("id")
    }
    if endpoint.model:
        return ServedModel(endpoint, _about(models.get(endpoint.model, {})))
    names = [name for name, entry in models.items() if not entry.get("parent")]
    if status in (401, 403):
        raise Unusable(
            "refused",
            f"The endpoint {endpoint.shown} refuses the key: put the right one into the environment"
            f" variable {key_env}.",
        )
    if status != 200 or len(names) != 1:
        message = f"lists {len(names)} models" if status == 200 else f"answers HTTP {status}"
        raise Unusable(
            "unreachable",
            f"The endpoint {endpoint.shown} {message} at /models: name the one you mean as "
            "llm.name, and check that the address ends in /v1.",
        )
    return ServedModel(replace(endpoint, model=names[0]), _about(models[names[0]]))


def _about(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that distinguish models with the same name; of a path only the last part."""
    meta = entry.get("meta")
    entries = {**entry, **meta} if isinstance(meta, dict) else entry
    about = {what: entries[what] for what in _ABOUT if isinstance(entries.get(what), str | int)}
    if "root" in about:
        about["root"] = str(about["root"]).rstrip("/").rpartition("/")[2]
    return about


def _get(endpoint: Endpoint) -> tuple[int, Any]:
    """HTTP status and JSON of the endpoint's list of models; None if it is not JSON.

    Raises Stopped if nothing answers, Unusable if no connection can ever succeed.
    """
    headers = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
    try:
        response = httpx.get(
            endpoint.at("/models"), headers=headers, timeout=_SECONDS, trust_env=endpoint.is_outside
        )
    except httpx.HTTPError as error:
        raise never_to_be_had(error, endpoint) or Stopped(
            "unreachable",
            f"The endpoint {endpoint.shown} does not answer ({type(error).__name__}): "
            "start it, or correct run.llm.endpoints.",
        ) from None
    except (ImportError, ValueError) as error:
        raise no_proxy(error) from None
    try:
        return response.status_code, response.json()
    except (ValueError, RecursionError):
        return response.status_code, None


_FILES = ("chat_template.jinja", "chat_template.json")
_FOLDER = "additional_chat_templates"


def has_chat_template(model: Path) -> bool:
    """Whether a model's directory has a chat template; loads no model."""
    if any((model / name).is_file() for name in _FILES) or (model / _FOLDER).is_dir():
        return True
    try:
        config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))
