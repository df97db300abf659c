"""Runs: what was started, which artifact each step came to, and how it ended.

    runs/<run_id>/start.json         put if absent
                  steps/<step>.json  as each step is reached
                  end.json           with the steps once more, so that listing reads two files

While a run goes on its process holds the lock ``run-<run_id>`` (`locks.hold`); a run that has no
end and whose lock nobody holds has crashed.
"""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tercet.storage import locks
from tercet.storage.store import Store, StoreError, json_bytes

Run = dict[str, Any]


class UnknownRef(StoreError):
    """A name that stands for nothing in this store: one sentence that says what there is."""


def start_run(
    store: Store, recipe_name: str, recipe: Mapping[str, Any], info: dict[str, Any]
) -> str:
    """Notes that a run starts; returns its id, which sorts by time of start (UTC)."""
    while True:
        now = datetime.now(UTC)
        stamp = now.strftime("%Y%m%dT%H%M%S") + f"{now.microsecond:06d}"
        run_id = f"{stamp}-{secrets.token_hex(2)}"
        start = {
            "run_id": run_id,
            "recipe_name": recipe_name,
            "started": now.isoformat(timespec="milliseconds"),
            "recipe": dict(recipe),
            "info": info,
        }
        if store.create_json(f"runs/{run_id}/start.json", start):
            return run_id


def record_step(store: Store, run_id: str, step: str, entry: Mapping[str, Any]) -> None:
    """Notes what a step came to.

    `entry` has step, stage, version, state (reused, resumed or made), seconds and tables. The
    first note of a version stands; a retry that came to another version replaces it.
    """
    path = f"runs/{run_id}/steps/{step}.json"
    noted = {"step": step, **entry}
    noted.setdefault("recorded", _now())
    if store.create_json(path, noted):
        return
    standing = store.get_json(path)
    if standing is None or standing.get("version") != noted.get("version"):
        store.replace(path, json_bytes(noted))


def end_run(store: Store, run_id: str, state: str, info: Mapping[str, Any]) -> None:
    """Notes how the run ended (done, failed …); of a retried run the last end stands."""
    end = {"state": state, "ended": _now(), "info": dict(info), "steps": _steps(store, run_id)}
    store.replace(f"runs/{run_id}/end.json", json_bytes(end))


def list_runs(store: Store) -> list[Run]:
    """All runs, newest first.

    Each has run_id, recipe_name, recipe, info, started, ended (None without an end), state
    (`running`, `crashed`, or what `end_run` was told), end_info, and steps in the order in which
    they were recorded.
    """
    found = (_run(store, run_id) for run_id in reversed(store.list("runs")))
    return [run for run in found if run is not None]


def get_run(store: Store, run_id: str) -> Run | None:
    """One run of exactly this id, in the form that `list_runs` gives."""
    return _run(store, run_id)


def resolve_run(store: Store, ref: str | None) -> Run:
    """The run that `ref` means: an id, a tag, a recipe's name (its newest run), a unique beginning
    of an id; None is the newest. Raises UnknownRef with one sentence.
    """
    # Not the folders: one whose start was never written holds no run.
    listed = list_runs(store)
    if not listed:
        raise UnknownRef(f"{store.location} holds no runs yet: start one with `tercet run`.")
    if ref is None:
        return listed[0]
    by_id = {run["run_id"]: run for run in listed}
    tagged = store.get_json(f"tags/{ref}.json") if "/" not in ref else None
    wanted = tagged["target"] if tagged is not None else ref
    if wanted in by_id:
        return by_id[wanted]
    for run in listed:
        if run["recipe_name"] == ref:
            return run
    matching = [run_id for run_id in by_id if run_id.startswith(ref)]
    if len(matching) == 1:
        return by_id[matching[0]]
    if matching and ref:
        raise UnknownRef(f"{len(matching)} runs begin with {ref!r}: write more of the id.")
    raise UnknownRef(f"No run, tag or recipe is called {ref!r}: `tercet ls` shows what there is.")


def _run(store: Store, run_id: str) -> Run | None:
    start = store.get_json(f"runs/{run_id}/start.json")
    if start is None:
        return None
    # The lock is asked first: a run that ends in between is then seen with its end.
    going = locks.is_held(store, f"run-{run_id}")
    end = store.get_json(f"runs/{run_id}/end.json")
    if going or end is None:
        steps = _steps(store, run_id)
        state = "running" if going else "crashed"
        return {**start, "state": state, "ended": None, "end_info": {}, "steps": steps}
    return {
        **start,
        "state": end["state"],
        "ended": end["ended"],
        "end_info": end["info"],
        "steps": end["steps"],
    }


def _steps(store: Store, run_id: str) -> list[dict[str, Any]]:
    prefix = f"runs/{run_id}/steps"
    found = (store.get_json(f"{prefix}/{name}") for name in store.list(prefix))
    return sorted((step for step in found if step), key=lambda step: str(step["recorded"]))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
