"""Tags for runs and artifacts, and the resolution of names on the command line."""

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any

from tercet.storage import locks, runs
from tercet.storage.artifacts import Artifact, all_artifacts
from tercet.storage.records import now
from tercet.storage.runs import TAG_PREFIX, UnknownRef
from tercet.storage.store import Store, StoreError, json_bytes

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
            f"{name!r} is not a valid tag: use letters, digits, dot, dash, underscore, at most 100."
        )
    # Looked for and named at once, or a collection in between would not see the tag.
    with locks.hold(store, runs.COLLECTION, waiting, who="tercet tag"):
        if "@" in target:
            found = resolve_ref(store, target)
            target = f"{found.step}@{found.version}"
        elif runs.get_run(store, target) is None:
            raise UnknownRef(f"There is no run {target!r} to tag: `tercet ls` shows what there is.")
        noted = {"tag": name, "target": target, "set": now()}
        store.replace(f"tags/{name}.json", json_bytes(noted))


def remove_tag(store: Store, name: str) -> str:
    """Removes a tag; returns what it named, which stays until it is collected. Raises UnknownRef.

    name: alone or as recipes write it.
    """
    target, name = get_tag(store, name), name.removeprefix(TAG_PREFIX)
    if target is None:
        raise UnknownRef(
            f'There is no tag {name!r} to remove: `tercet sql "SELECT * FROM tags"` lists them.'
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
        raise UnknownRef(f"There is no tag {tag!r} in the store: `tercet tag REF {tag}` sets it.")
    if tagged is not None and "@" not in tagged:
        raise UnknownRef(f"The tag {tag!r} is a run: name a step or a table, with --run {tag}.")
    name, _, version = (tagged or ref).partition("@")
    matching = [
        (artifact, tables)
        for artifact, tables in _with_tables(store)
        if artifact.version.startswith(version) and _means(name, artifact, tables)
    ]
    if not matching and tagged is not None:
        raise UnknownRef(
            f"The tag {tag!r} names {tagged}, which was removed: `tercet tag REF {tag}` moves it."
        )
    if not matching:
        raise UnknownRef(_unknown(store, ref))
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
        runs.resolve_run(store, ref)
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
        raise UnknownRef(f"{len(found)} versions fit {ref!r}: write more of the version.")
    return found[0]


def _newest(store: Store, name: str, artifacts: list[Artifact]) -> Artifact:
    wanted = {(artifact.step, artifact.version): artifact for artifact in artifacts}
    for run in runs.list_runs(store):
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
