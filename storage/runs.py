"""Records of runs (start, the artifact of each step, end) and tags of runs and artifacts, with the
resolution of names on the command line.

    runs/<run_id>/start.json         created if absent
                  uses.json          artifacts that the run may read or make, until it is done
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

# The lock that is held to delete artifacts, and by a run while it begins to use existing ones.
COLLECTION = "gc"

# Optional before a tag's name wherever a run, a version or a model is named.
TAG_PREFIX = "tag:"
# The largest difference between machines' clocks that is not reported.
_SKEW = timedelta(minutes=10)
# The form of a run's id, which keeps paths inside the folder of runs.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class UnknownRef(StoreError):
    """A name unknown in this store: one sentence that lists the known ones."""


class SeveralRuns(UnknownRef):
    """The beginning of several runs' ids."""


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
    """Notes that the run may use these artifacts (`step@version`), so that `gc` keeps them until it
    is done. The caller holds the lock `COLLECTION`.
    """
    path = f"runs/{run_id}/uses.json"
    noted = set(store.get_json(path) or ())
    if not noted.issuperset(artifacts):
        store.replace(path, json_bytes(sorted({*noted, *artifacts})))


def reached(run: Run) -> set[str]:
    """The artifacts (`step@version`) of the steps that the run reached."""
    return {f"{step['step']}@{step.get('version')}" for step in run["steps"]}


def used(store: Store, run: Run) -> set[str]:
    """The artifacts (`step@version`), existing or not, that the run reached, that its recipe named
    when it began, or that it may use when it is resumed.
    """
    noted = None if run["state"] == "done" else store.read_json(f"runs/{run['run_id']}/uses.json")
    return reached(run) | set(run["info"].get("tags", {}).values()) | set(noted or ())


def remove_run(
    store: Store, run_id: str, waiting: Callable[[str], None] = lambda holder: None
) -> None:
    """Removes the record of a run; its artifacts stay until `gc` collects them.

    waiting: as in `locks.hold`, for a collection.
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
            # A copied tag file holds another name than its own, and does not count.
            if tagged.get("target") == run_id and tagged.get("tag", tag) == tag:
                raise StoreError(
                    "conflict",
                    f"The run {run_id} has the tag {tag!r}: remove that first, tercet untag {tag}.",
                )
        # The start goes first: without it there is no run, even if a kill leaves other files.
        store.delete(f"runs/{run_id}/start.json")
        for path in store.stats(f"runs/{run_id}"):
            store.delete(path)


def end_run(store: Store, run_id: str, state: str, info: Mapping[str, Any]) -> None:
    """Records the run's end state (done, failed …); a retried run's last end counts."""
    end = {"state": state, "ended": now(), "info": dict(info), "steps": _steps(store, run_id)}
    store.replace(f"runs/{run_id}/end.json", json_bytes(end))


def refuse_run(
    store: Store, recipe_name: str, info: Mapping[str, Any], error: str, state: str = "failed"
) -> str:
    """Records a run that ended before its first step; returns its id.

    `list_runs` lists it, but `resolve_run` never takes it for the newest run.
    """
    run_id = start_run(store, recipe_name, {}, {**info, "steps": [], "refused": True})
    end_run(store, run_id, state, {"error": error})
    return run_id


def list_runs(store: Store) -> list[Run]:
    """All runs, newest first; runs of `tercet try`, and runs that a wrong clock has dated later
    than now, come last. Runs with a damaged record are left out, with a warning (`Store.damaged`).

    Each has run_id, recipe_name, recipe, info, started, ended (None without an end), state
    (`running`, `crashed`, or the state given to `end_run`), end_info, and steps in the order in
    which they were recorded.
    """
    with store.as_listed():
        runs = store.each(lambda run_id: _run(store, run_id), store.list("runs")[::-1])
    listed = [run for run in runs if run is not None]
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
    """The steps that the run has not reached."""
    reached = {entry["step"] for entry in run["steps"]}
    return [step for step in run["info"].get("steps") or () if step not in reached]


def resolve_run(store: Store, ref: str | None) -> Run:
    """The run named by `ref`: an id, a tag, a recipe's name (its newest run) or a unique prefix of
    an id; None means the newest run. Runs that could not begin (`refuse_run`) count only if no run
    began.

    Raises UnknownRef with one sentence.
    """
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
    target = tagged["target"] if tagged is not None else ref
    if target in by_id:
        return by_id[target]
    for run in [*begun, *listed]:
        if run["recipe_name"] == ref:
            return run
    # An empty name (of an unset variable in a script) would be a prefix of every id.
    matching = [run_id for run_id in by_id if ref and run_id.startswith(ref)]
    if len(matching) == 1:
        return by_id[matching[0]]
    if matching:
        raise SeveralRuns(
            "bad_value", f"{len(matching)} runs begin with {ref!r}: write more of the id."
        )
    if tagged is not None:
        what = "which is a version, not a run" if "@" in target else "which was removed"
        raise UnknownRef(
            "bad_value" if "@" in target else "gone",
            f"The tag {name!r} names {target}, {what}: `tercet ls` lists the runs.",
        )
    raise UnknownRef(
        "unknown_name", f"No run, tag or recipe is called {ref!r}: `tercet ls` shows what there is."
    )


def _run(store: Store, run_id: str) -> Run | None:
    start = store.read_json(f"runs/{run_id}/start.json")
    if start is None:
        return None
    end_path = f"runs/{run_id}/end.json"
    end, going = store.read_json(end_path), False
    if end is None and end_path not in store.damaged:
        going = locks.is_held(store, f"run-{run_id}")
        # The run may have ended before its lock was looked at.
        end = None if going else store.read_json(end_path)
    if end_path in store.damaged:
        return None
    if end is None:
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
    entries = [(name, store.read_json(f"{prefix}/{name}")) for name in store.list(prefix)]
    # A copied file holds another step than its name says.
    steps = [step for name, step in entries if step and name == f"{step['step']}.json"]
    return sorted(steps, key=lambda step: str(step["recorded"]))


_OTHER_SEED = re.compile(r"\.seed\d+$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def set_tag(
    store: Store, name: str, target: str, waiting: Callable[[str], None] = lambda holder: None
) -> None:
    """Gives a run id or ``step@version`` a tag; an existing tag of this name is moved.

    waiting: as in `locks.hold`, for a collection.
    Raises StoreError for an invalid name, UnknownRef for a missing target.
    """
    if not _NAME.fullmatch(name):
        raise StoreError(
            "bad_value",
            f"{name!r} is no valid tag: use letters, digits, dot, dash, underscore, at most 100.",
        )
    # Under the lock, since a collection between the check and the tag would delete the target.
    with locks.hold(store, COLLECTION, waiting, who="tercet tag"):
        if "@" in target:
            target = resolve_ref(store, target).name
        elif get_run(store, target) is None:
            raise UnknownRef(
                "unknown_name",
                f"There is no run {target!r} to tag: `tercet ls` shows what there is.",
            )
        noted = {"tag": name, "target": target, "set": now()}
        store.replace(f"tags/{name}.json", json_bytes(noted))


def remove_tag(store: Store, name: str) -> str:
    """Removes a tag; returns its target, which stays until `gc` collects it. Raises UnknownRef.

    name: with or without ``tag:``.
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

    name: with or without ``tag:``.
    """
    name = name.removeprefix(TAG_PREFIX)
    tag = store.read_json(f"tags/{name}.json") if _NAME.fullmatch(name) else None
    # A copied file holds another name than its own.
    return None if tag is None or tag.get("tag", name) != name else str(tag["target"])


def list_tags(store: Store) -> dict[str, str]:
    """All tags with their targets."""
    names = [name.removesuffix(".json") for name in store.list("tags")]
    targets = store.each(lambda name: get_tag(store, name), names)
    return {name: to for name, to in zip(names, targets, strict=True) if to is not None}


def resolve_ref(store: Store, ref: str) -> Artifact:
    """The artifact named by `ref`, preferring finished ones.

    A tag, also as ``tag:NAME``; a step or a table (from the newest run that reached it, else the
    newest one); or ``name@version`` with a step's, stage's or table's name and the start of a
    version.
    Raises UnknownRef with one sentence.
    """
    with store.as_listed():
        return _resolved(store, ref)


def _resolved(store: Store, ref: str) -> Artifact:
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
        if artifact.version.startswith(version)
        and name in (artifact.step, artifact.step.partition(".")[0], *tables)
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

    The step of exactly that name, else the last one of the recipe's own seed: `train` is the last
    phase, not an earlier one or `train.PHASE.seed43`.
    """
    if name in steps:
        return name
    of_recipe = [step for step in steps if not _OTHER_SEED.search(step)]
    return (of_recipe or list(steps))[-1]


def _unknown(store: Store, ref: str) -> str:
    """The message for an unknown name: that it is a run's, or the nearest known name."""
    try:
        resolve_run(store, ref)
    except UnknownRef:
        pass
    else:
        return f"{ref!r} is a run: `tercet ls --run {ref}` lists its artifacts."
    names = set(list_tags(store))
    for artifact, tables in _with_tables(store):
        names |= {artifact.step, artifact.step.partition(".")[0], *tables}
    near = difflib.get_close_matches(ref.partition("@")[0], sorted(names - {ref}), n=1)
    return (
        f"No table, step, version or tag is called {ref!r}"
        + (f"; the nearest is {near[0]!r}" if near else "")
        + ": `tercet ls --run RUN` lists a run's artifacts."
    )


def _with_tables(store: Store) -> list[tuple[Artifact, list[str]]]:
    artifacts = all_artifacts(store)
    tables_of = zip(artifacts, store.each(_tables, artifacts), strict=True)
    return [(artifact, tables) for artifact, tables in tables_of if tables is not None]


def _tables(artifact: Artifact) -> list[str] | None:
    """The artifact's tables; None before its first part."""
    manifest = artifact.manifest()
    if manifest is not None:
        return list(manifest["tables"])
    record = next(iter(artifact.records().values()), None)
    return None if record is None else list(record["schemas"])


def _single(artifacts: list[Artifact], ref: str, version: str) -> Artifact:
    artifacts = [one for one in artifacts if one.version == version] or artifacts
    if len(artifacts) > 1:
        raise UnknownRef(
            "bad_value", f"{len(artifacts)} versions fit {ref!r}: write more of the version."
        )
    return artifacts[0]


def _newest(store: Store, name: str, artifacts: list[Artifact]) -> Artifact:
    by_version = {(artifact.step, artifact.version): artifact for artifact in artifacts}
    for run in list_runs(store):
        reached: dict[str, Artifact] = {}
        for step in run["steps"]:
            artifact = by_version.get((step["step"], str(step.get("version"))))
            if artifact is not None and artifact.manifest() is not None:
                reached[artifact.step] = artifact
        if reached:
            return reached[meant(name, list(reached))]

    def created(artifact: Artifact) -> tuple[bool, str]:
        manifest: dict[str, Any] | None = artifact.manifest()
        if manifest is not None:
            return True, str(manifest["created"])
        return False, max(str(record["created"]) for record in artifact.records().values())

    return max(artifacts, key=created)
