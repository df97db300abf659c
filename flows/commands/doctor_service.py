"""What `tercet doctor` finds of services: workers, automations, endpoints and a Ray cluster.

Prefect's server is asked over HTTP, since importing Prefect takes seconds and writes to its home.
"""

import base64
import json
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import quote

from tercet.flows.pages.redaction import public
from tercet.flows.running.workers import check_answer, check_ray
from tercet.storage import runs
from tercet.storage.store import StoreError, open_store
from tercet.tasks.stage import BadInput

State = Literal["ok", "note", "missing", "unwritable"]

_SECONDS = 5
# Automations of a recipe; another one lets its training follow its synthesis.
_WATCH = 4


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    state: ok; note: worth knowing, but the quickstart does not need it; missing: the quickstart
        needs it; unwritable: the store cannot be written.
    """

    state: State
    what: str
    says: str


def deployed() -> list[Finding]:
    """The workers and automations of what `tercet deploy` has put on the shared server."""
    url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not url:
        return []
    try:
        of_tercet = {"flows": {"name": {"any_": ["tercet"]}}}
        found = _all(f"{url}/deployments/filter", of_tercet)
        # What `tercet serve` runs needs no pool, and has no automations.
        deployments = [one for one in found if one["work_pool_name"] is not None]
        if not deployments:
            says = "nothing is deployed on that server: tercet deploy RECIPE"
            return [Finding("note", "workers", says)]
        pools = dict.fromkeys(one["work_pool_name"] for one in deployments)
        workers = [_workers(url, pool) for pool in pools]
        automations = _all(f"{url}/automations/filter", {})
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        says = f"the server does not say what is deployed ({_fault(error)}): "
        return [Finding("note", "workers", says + "see the line above, and its login")]
    return [*workers, *_automations(deployments, automations)]


def _workers(url: str, pool: str) -> Finding:
    of_pool = f"{url}/work_pools/{quote(pool, safe='')}"
    if _ask(of_pool, None)["is_paused"]:
        says = f"the pool {pool!r} is paused: prefect work-pool resume {shlex.quote(pool)}"
        return Finding("note", "workers", says)
    workers = _ask(f"{of_pool}/workers/filter", {})
    online = [worker["name"] for worker in workers if worker["status"] == "ONLINE"]
    if not online:
        start = f"prefect worker start --pool {shlex.quote(pool)} --limit 1"
        return Finding("note", "workers", f"none is online in the pool {pool!r}: {start}")
    count = "1 is" if len(online) == 1 else f"{len(online)} are"
    return Finding("ok", "workers", f"{count} online in the pool {pool!r}")


def _automations(deployments: Any, automations: Any) -> list[Finding]:
    """Those that watch over each recipe, whose names `tercet deploy` begins with the recipe's."""
    found = []
    names = [one["name"] for one in deployments]
    recipes = (name.removesuffix("-train").removesuffix("-synthesise") for name in names)
    for recipe in dict.fromkeys(recipes):
        own = [one for one in automations if one["name"].startswith(f"tercet {recipe}: ")]
        off = [one["name"] for one in own if not one["enabled"]]
        # Whether a person is told is whoever deploys to say.
        least = _WATCH + (f"{recipe}-synthesise" in names)
        lacks = least - sum(not one["name"].endswith(" a person") for one in own)
        if lacks > 0:
            says = f"{lacks} of {least} automations that watch over {recipe} are gone: "
            says += "tercet deploy its recipe again"
        elif off:
            says = f"{', '.join(off)}: switched off, switch on under Automations in Prefect's pages"
        else:
            says = f"automations that watch over {recipe}: {len(own)}"
        found.append(Finding("note" if off or lacks > 0 else "ok", "watch", says))
    return found


def cluster() -> list[Finding]:
    """The Ray cluster of `run.workers: ray`, where the environment names one."""
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return []
    try:
        check_ray()
        check_answer()
        from tercet.flows.running.ray_workers import described

        return [Finding("ok", "cluster", f"Ray at {address}: {described()}")]
    except BadInput as error:
        return [Finding("note", "cluster", f"{error}")]


def endpoints(store: str) -> list[Finding]:
    """Whether the endpoints that the newest run's recipe names answer."""
    try:
        run = runs.resolve_run(open_store(store, create=False), None)
    except StoreError:
        return []
    asked: Mapping[str, Any] = (run["recipe"].get("run") or {}).get("llm") or {}
    found = []
    for endpoint in asked.get("endpoints") or ():
        shown = public(endpoint)
        key_env = str(asked.get("key_env") or "TERCET_LLM_KEY")
        key = os.environ.get(key_env, "").strip()
        try:
            login = {"Authorization": f"Bearer {key}"} if key else {}
            _ask(f"{endpoint.rstrip('/')}/models", None, login)
        except (OSError, HTTPException, ValueError) as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else None
            if code == 404 and (run["recipe"].get("llm") or {}).get("name"):
                # It is asked for its model by name, and need not list any.
                found.append(Finding("ok", "endpoint", f"{shown} answers, and lists no models"))
                continue
            remedy = "start it, or correct its address"
            if code in (401, 403):
                remedy = f"put its key into {key_env}"
            elif code == 404:
                remedy = "let its address end in /v1, or name its model as llm.name"
            says = f"{shown} of run {run['run_id']} does not answer ({_fault(error)}): {remedy}"
            found.append(Finding("note", "endpoint", says))
        else:
            found.append(Finding("ok", "endpoint", f"{shown} answers"))
    return found


def _all(url: str, body: Mapping[str, Any]) -> list[Any]:
    """Everything that a filter finds, of which a server gives so much at once."""
    found: list[Any] = []
    while page := _ask(url, {**body, "offset": len(found)}):
        found += page
    return found


def _ask(url: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON that the address answers: to a POST of the body, without one to a GET."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(_login() if headers is None else headers)}
    request = urllib.request.Request(url, data, sent)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        return json.load(answer)


def _login() -> dict[str, str]:
    """What Prefect's own clients send, by their settings."""
    if key := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if word := os.environ.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
    return {}


def _fault(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or type(reason).__name__)
