"""Runs: what was started, the artifact of each step, and how the run ended; and tags of runs and
artifacts, with the resolution of names on the command line.

    runs/<run_id>/start.json         created if absent
                  uses.json          the artifacts that it may read or make, until it is done
                  steps/<step>.json  as each step is reached
                  end.json           repeats the steps, so that listing reads only two files

During a run its process holds the lock ``run-<run_id>`` (`locks.hold`); a run without an end whose
lock is free has crashed.
"""

import difflib
import logging
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from tercet.storage import locks
from tercet.storage.artifacts import Artifact, all_artifacts
from tercet.storage.records import now
from tercet.storage.store import Store, StoreError, json_bytes

Run = dict[str, Any]

# Held by whoever deletes artifacts, and by a run while it begins to use what lies in the store.
COLLECTION = "gc"

# May stand before a tag's name wherever a run, a version or a model is named.
TAG_PREFIX = "tag:"
# Clocks of several machines may differ so far.
_SKEW = timedelta(minutes=10)
# What may be a run's id: no path leads out of the folder of runs.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class UnknownRef(StoreError):
    """A name unknown in this store: one sentence that lists the known ones."""


class SeveralRuns(UnknownRef):
    """A beginning of more than one run's id."""


def start_run(
    store: Store, recipe_name: str, recipe: Mapping[str, Any], info: dict[str, Any]
) -> str:
    """Records the start of a run; returns its id, which sorts by start time (UTC)."""
    while True:
        began = datetime.now(UTC)
        stamp = began.strftime("%Y%m%dT%H%M%S") + f"{began.microsecond:06d}"
        run_id = f"{stamp}-{secrets.token_hex(2)}"
        start = {
            "run_id": run_id,
            "recipe_name": recipe_name,
            "started": began.isoformat(timespec="milliseconds"),
            "recipe": dict(recipe),
            "info": info,
        }
        if store.create_json(f"runs/{run_id}/start.json", start):
            return run_id


def record_step(store: Store, run_id: str, step: str, entry: Mapping[str, Any]) -> None:
    """Records the outcome of a step.

    `entry` has step, stage, version, state (reused, resumed or made), seconds and tables. The
    first entry of a version is kept; a retry with another version replaces it.
    """
    path = f"runs/{run_id}/steps/{step}.json"
    noted = {"step": step, **entry}
    noted.setdefault("recorded", now())
    if store.create_json(path, noted):
        return
    standing = store.read_json(path)
    if standing is None or standing.get("version") != noted.get("version"):
        store.replace(path, json_bytes(noted))


def use(store: Store, run_id: str, artifacts: Collection[str]) -> None:
    """Notes that the run may use these artifacts (`step@version`), which then stay until it is
    done. The caller holds the lock `COLLECTION`.
    """
    path = f"runs/{run_id}/uses.json"
    noted = set(store.get_json(path) or ())
    if not noted.issuperset(artifacts):
        store.replace(path, json_bytes(sorted({*noted, *artifacts})))


def reached(run: Run) -> set[str]:
    """The artifacts (`step@version`) of the steps that the run reached."""
    return {f"{step['step']}@{step.get('version')}" for step in run["steps"]}


def used(store: Store, run: Run) -> set[str]:
    """The artifacts (`step@version`) that the run reached, that its recipe named when it began, or
    that it may use once it is resumed; whether or not they are there.
    """
    noted = None if run["state"] == "done" else store.read_json(f"runs/{run['run_id']}/uses.json")
    return reached(run) | set(run["info"].get("tags", {}).values()) | set(noted or ())


def remove_run(
    store: Store, run_id: str, waiting: Callable[[str], None] = lambda holder: None
) -> None:
    """Removes the record of a run; what it made stays until it is collected.

    waiting: as of `locks.hold`, for a collection.
    Raises StoreError if the run is going on or has a tag.
    """
    with locks.hold(store, COLLECTION, waiting, who="tercet rm"):
        if locks.is_held(store, f"run-{run_id}"):
            raise StoreError(
                "busy", f"The run {run_id} is going on: stop it first, or wait for its end."
            )
        for name in store.list("tags"):
            tagged = store.get_json(f"tags/{name}") or {}
            tag = name.removesuffix(".json")
            # A copy of a tag says another name than its own, and is none.
            if tagged.get("target") == run_id and tagged.get("tag", tag) == tag:
                raise StoreError(
                    "conflict",
                    f"The run {run_id} has the tag {tag!r}: remove that first, tercet untag {tag}.",
                )
        # Without its start it is no run, whatever becomes of the rest.
        store.delete(f"runs/{run_id}/start.json")
        for path in store.stats(f"runs/{run_id}"):
            store.delete(path)


def end_run(store: Store, run_id: str, state: str, info: Mapping[str, Any]) -> None:
    """Records how the run ended (done, failed …); the last end of a retried run counts."""
    end = {"state": state, "ended": now(), "info": dict(info), "steps": _steps(store, run_id)}
    store.replace(f"runs/{run_id}/end.json", json_bytes(end))


def refuse_run(
    store: Store, recipe_name: str, info: Mapping[str, Any], error: str, state: str = "failed"
) -> str:
    """Records a run that ended before its recipe could be followed; returns its id.

    `list_runs` has it in its place, but it is never taken for the newest run.
    """
    run_id = start_run(store, recipe_name, {}, {**info, "steps": [], "refused": True})
    end_run(store, run_id, state, {"error": error})
    return run_id


def list_runs(store: Store) -> list[Run]:
    """All runs, newest first; those of `tercet try` come last, as they are nobody's results, and so
    do those that a clock set ahead has dated later than now. A run is left out, with a warning, if
    its record is damaged (`Store.damaged`).

    Each has run_id, recipe_name, recipe, info, started, ended (None without an end), state
    (`running`, `crashed`, or the state given to `end_run`), end_info, and steps in the order in
    which they were recorded.
    """
    found = store.each(lambda run_id: _run(store, run_id), store.list("runs")[::-1])
    listed = [run for run in found if run is not None]
    soon = f"{datetime.now(UTC) + _SKEW:%Y%m%dT%H%M%S}"
    if ahead := [run["run_id"] for run in listed if run["run_id"] > soon]:
        _warn(
            f"Runs dated later than now count as the oldest ({len(ahead):,} of "
            f"{store.location}, up to {ahead[0]}): this machine's clock is wrong, or another was. "
            "Set it, or remove them with `tercet rm`."
        )
    return sorted(
        listed, key=lambda run: run["run_id"] > soon or run["info"].get("tried") is not None
    )


@cache
def _warn(message: str) -> None:
    """Warns once a process."""
    logging.getLogger(__name__).warning(message)


def get_run(store: Store, run_id: str) -> Run | None:
    """The run with exactly this id, in the form of `list_runs`."""
    return _run(store, run_id) if _ID.fullmatch(run_id) else None


def was_started(store: Store, run_id: str) -> bool:
    """Whether this is the store in which the run began."""
    return store.exists(f"runs/{run_id}/start.json")


def steps_left(run: Mapping[str, Any]) -> list[str]:
    """The steps that the run was to reach and has not."""
    reached = {entry["step"] for entry in run["steps"]}
    return [step for step in run["info"].get("steps") or () if step not in reached]


def resolve_run(store: Store, ref: str | None) -> Run:
    """The run named by `ref`: an id, a tag, a recipe's name (its newest run) or a unique prefix of
    an id; None means the newest. The newest is one that could begin, if there is any.

    Raises UnknownRef with one sentence.
    """
    # Not the folders: without a start.json there is no run.
    listed = list_runs(store)
    if not listed:
        raise UnknownRef(
            "not_reached", f"{store.location} has no runs yet: start one with `tercet run`."
        )
    begun = [run for run in listed if not run["info"].get("refused")] or listed
    if ref is None:
        return begun[0]
    by_id = {run["run_id"]: run for run in listed}
    name = ref.removeprefix(TAG_PREFIX)
    tagged = store.read_json(f"tags/{name}.json") if "/" not in name else None
    wanted = tagged["target"] if tagged is not None else ref
    if wanted in by_id:
        return by_id[wanted]
    for run in [*begun, *listed]:
        if run["recipe_name"] == ref:
            return run
    # What is empty begins everything: a script whose variable is not set means no run.
    matching = [run_id for run_id in by_id if ref and run_id.startswith(ref)]
    if len(matching) == 1:
        return by_id[matching[0]]
    if matching:
        raise SeveralRuns(
            "bad_value", f"{len(matching)} runs begin with {ref!r}: write more of the id."
        )
    if tagged is not None:
        what = "which is a version, not a run" if "@" in wanted else "which was removed"
        raise UnknownRef(
            "bad_value" if "@" in wanted else "gone",
            f"The tag {name!r} names {wanted}, {what}: `tercet ls` lists the runs.",
        )
    raise UnknownRef(
        "unknown_name", f"No run, tag or recipe is called {ref!r}: `tercet ls` shows what there is."
    )


def _run(store: Store, run_id: str) -> Run | None:
    start = store.read_json(f"runs/{run_id}/start.json")
    if start is None:
        return None
    # The lock is checked first, so that a run that ends in between is seen with its end.
    going = locks.is_held(store, f"run-{run_id}")
    end = store.read_json(f"runs/{run_id}/end.json")
    if f"runs/{run_id}/end.json" in store.damaged:
        return None
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
    found = [(name, store.read_json(f"{prefix}/{name}")) for name in store.list(prefix)]
    # A copy of an entry says another name than its own.
    steps = [step for name, step in found if step and name == f"{step['step']}.json"]
    return sorted(steps, key=lambda step: str(step["recorded"]))


_OTHER_SEED = re.compile(r"\.seed\d+$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def set_tag(
    store: Store, name: str, target: str, waiting: Callable[[str], None] = lambda holder: None
) -> None:
    """Names a run id or ``step@version``; an existing tag of this name is moved.

    waiting: as of `locks.hold`, for a collection.
    Raises StoreError for an invalid name, UnknownRef for a missing target.
    """
    if not _NAME.fullmatch(name):
        raise StoreError(
            "bad_value",
            f"{name!r} is no valid tag: use letters, digits, dot, dash, underscore, at most 100.",
        )
    # Looked for and named at once, or a collection in between would not see the tag.
    with locks.hold(store, COLLECTION, waiting, who="tercet tag"):
        if "@" in target:
            found = resolve_ref(store, target)
            target = f"{found.step}@{found.version}"
        elif get_run(store, target) is None:
            raise UnknownRef(
                "unknown_name",
                f"There is no run {target!r} to tag: `tercet ls` shows what there is.",
            )
        noted = {"tag": name, "target": target, "set": now()}
        store.replace(f"tags/{name}.json", json_bytes(noted))


def remove_tag(store: Store, name: str) -> str:
    """Removes a tag; returns what it named, which stays until it is collected. Raises UnknownRef.

    name: alone or as recipes write it.
    """
    target, name = get_tag(store, name), name.removeprefix(TAG_PREFIX)
    if target is None:
        raise UnknownRef(
            "unknown_name",
            f'There is no tag {name!r} to remove: `tercet sql "SELECT * FROM tags"` lists them.',
        )
    store.delete(f"tags/{name}.json")
    return target


def get_tag(store: Store, name: str) -> str | None:
    """The target of a tag, a run id or ``step@version``; None if there is no such tag.

    name: alone or as recipes write it, ``tag:NAME``.
    """
    name = name.removeprefix(TAG_PREFIX)
    found = store.read_json(f"tags/{name}.json") if _NAME.fullmatch(name) else None
    # A copy of a tag says another name than its own.
    return None if found is None or found.get("tag", name) != name else str(found["target"])


def list_tags(store: Store) -> dict[str, str]:
    """All tags with their targets."""
    names = [name.removesuffix(".json") for name in store.list("tags")]
    found = zip(names, store.each(lambda name: get_tag(store, name), names), strict=True)
    return {name: target for name, target in found if target is not None}


def resolve_ref(store: Store, ref: str) -> Artifact:
    """The artifact named by `ref`, preferring finished ones.

    A tag, also as ``tag:NAME``; a step or a table (from the newest run that reached it, else the
    newest one); or ``name@version`` with a step's, stage's or table's name and the start of a
    version.
    Raises UnknownRef with one sentence.
    """
    tagged, tag = get_tag(store, ref), ref.removeprefix(TAG_PREFIX)
    if tagged is None and tag != ref:
        raise UnknownRef(
            "unknown_name", f"There is no tag {tag!r} in the store: `tercet tag REF {tag}` sets it."
        )
    if tagged is not None and "@" not in tagged:
        raise UnknownRef(
            "bad_value", f"The tag {tag!r} is a run: name a step or a table, with --run {tag}."
        )
    name, _, version = (tagged or ref).partition("@")
    matching = [
        (artifact, tables)
        for artifact, tables in _with_tables(store)
        if artifact.version.startswith(version) and _means(name, artifact, tables)
    ]
    if not matching and tagged is not None:
        raise UnknownRef(
            "gone",
            f"The tag {tag!r} names {tagged}, which was removed: `tercet tag REF {tag}` moves it.",
        )
    if not matching:
        raise UnknownRef("unknown_name", _unknown(store, ref))
    if version:
        return _single([artifact for artifact, _ in matching], ref, version)
    return _newest(store, name, [artifact for artifact, _ in matching])


def meant(name: str, steps: Sequence[str]) -> str:
    """The step that a name refers to, among one run's matching steps, in their order.

    This is the step with exactly that name, or else the last one of the recipe's own seed: `train`
    is the last phase, and neither an earlier one nor `train.PHASE.seed43`.
    """
    if name in steps:
        return name
    own = [step for step in steps if not _OTHER_SEED.search(step)]
    return (own or list(steps))[-1]


def _unknown(store: Store, ref: str) -> str:
    """What to say of a name that no artifact has: that it is a run's, or which name is near."""
    try:
        resolve_run(store, ref)
    except UnknownRef:
        pass
    else:
        return f"{ref!r} is a run: `tercet ls --run {ref}` lists its artifacts."
    known = set(list_tags(store))
    for artifact, tables in _with_tables(store):
        known |= {artifact.step, artifact.step.partition(".")[0], *tables}
    near = difflib.get_close_matches(ref.partition("@")[0], sorted(known - {ref}), n=1)
    return (
        f"No table, step, version or tag is called {ref!r}"
        + (f"; the nearest is {near[0]!r}" if near else "")
        + ": `tercet ls --run RUN` lists a run's artifacts."
    )


def _with_tables(store: Store) -> list[tuple[Artifact, list[str]]]:
    artifacts = all_artifacts(store)
    found = zip(artifacts, store.each(_tables, artifacts), strict=True)
    return [(artifact, tables) for artifact, tables in found if tables is not None]


def _tables(artifact: Artifact) -> list[str] | None:
    """The artifact's tables; None as long as it has no part."""
    manifest = artifact.manifest()
    if manifest is not None:
        return list(manifest["tables"])
    record = next(iter(artifact.records().values()), None)
    return None if record is None else list(record["schemas"])


def _means(name: str, artifact: Artifact, tables: list[str]) -> bool:
    return name in {artifact.step, artifact.step.partition(".")[0]} or name in tables


def _single(artifacts: list[Artifact], ref: str, version: str) -> Artifact:
    exact = [artifact for artifact in artifacts if artifact.version == version]
    found = exact or artifacts
    if len(found) > 1:
        raise UnknownRef(
            "bad_value", f"{len(found)} versions fit {ref!r}: write more of the version."
        )
    return found[0]


def _newest(store: Store, name: str, artifacts: list[Artifact]) -> Artifact:
    wanted = {(artifact.step, artifact.version): artifact for artifact in artifacts}
    for run in list_runs(store):
        there: dict[str, Artifact] = {}
        for step in run["steps"]:
            found = wanted.get((step["step"], str(step.get("version"))))
            if found is not None and found.manifest() is not None:
                there[found.step] = found
        if there:
            return there[meant(name, list(there))]

    def created(artifact: Artifact) -> tuple[bool, str]:
        manifest: dict[str, Any] | None = artifact.manifest()
        if manifest is not None:
            return True, str(manifest["created"])
        return False, max(str(record["created"]) for record in artifact.records().values())

    return max(artifacts, key=created)
