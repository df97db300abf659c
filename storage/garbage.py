"""What no run and no tag of the store uses any more, and its deletion.

Artifacts share files: a part that was found by its key names the files of the artifact in which it
was first made. So files are marked, by the records of the artifacts that a run or a tag uses.

A run and a collection beside it keep apart by the lock `runs.COLLECTION`. Holding it, a run notes
what it may use, and refers to the files of parts that it has found; holding it, a collection reads
these notes and records, and deletes. So a run finds an artifact or a part whole and keeps it, or
does not find it and makes it. A collection that is killed leaves nothing half deleted that anybody
takes for whole: what says that something exists goes before what it says.

Answers of language models are never deleted.
"""

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from tercet.storage import locks, runs
from tercet.storage.artifacts import key_path
from tercet.storage.catalog.snapshot import Entry, Snapshot, read_snapshot
from tercet.storage.objects import Stat
from tercet.storage.records import paths_of
from tercet.storage.runs import Run
from tercet.storage.store import (
    Damaged,
    FullDisk,
    Store,
    StoreError,
    is_own,
    json_bytes,
    unfinished,
)

# What is younger is not deleted, whatever runs and tags say.
YOUNG_SECONDS = 86_400.0
# So many are deleted before it asks whether it may go on.
_AT_ONCE = 100

_RECORDS = ("keys", "rounds", "runs", "schemas", "tags")
# Of an artifact's objects, what says that others exist, in the order in which it goes.
_CLAIMS = ("manifest.json", "parts.json", "_parts", "plan.json")
_ENGINE, _SQL = re.compile(r"engine-(.+)"), re.compile(r"sql-(\d+)(?:-[0-9a-f]+)?")


@dataclass(frozen=True)
class Garbage:
    """What can be deleted, and what lies beside it.

    objects: bytes by path, in the order of deletion. near: bytes by folder of the work directory,
    which holds no objects. moved: what is noted anew where a part's key is. waiting: bytes that are
    too young, named by what is, or in use by a process that has noted nothing. kept: the runs that
    count; lost: other runs that had artifacts among this.
    """

    objects: Mapping[str, int]
    near: Mapping[str, int]
    moved: Mapping[str, Mapping[str, Any]]
    waiting: int
    kept: tuple[Run, ...]
    lost: tuple[Run, ...]


def kept_runs(runs_: Sequence[Run], tags: Collection[str], keep: int | None) -> list[Run]:
    """The runs whose artifacts stay: all of them or, with `keep`, of the runs of each recipe with
    the same options those that are going on or have a tag, the last `keep` that were done, and all
    since; none of `tercet try`.

    runs_: newest first. tags: what tags name.
    """
    if keep is None:
        return list(runs_)
    done: Counter[str] = Counter()
    kept = []
    for run in runs_:
        given = {**run["info"].get("arguments", {}), "recipe": run["recipe_name"]}
        alike = json.dumps({**given, "retry_failed": None}, sort_keys=True)
        is_recent = run["info"].get("tried") is None and done[alike] < keep
        if is_recent or run["state"] == "running" or run["run_id"] in tags:
            kept.append(run)
        done[alike] += run["state"] == "done"
    return kept


def collect(
    store: Store,
    keep: int | None = None,
    delete: bool = False,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Garbage:
    """Finds what neither a tag nor one of the runs that count uses, and deletes it if asked to.

    keep: as of `kept_runs`. A tag keeps the run or the version that it names.
    waiting: as of `locks.hold`, for another collection.

    Raises FullDisk and StoreError like the store.
    """
    alone = locks.hold(store, runs.COLLECTION, waiting, who="tercet gc")
    with alone if delete else nullcontext() as is_held:
        found = _found(store, keep, time.time() - YOUNG_SECONDS)
        if is_held is not None:
            # Of a disk that is full, the first deletions make room for these.
            with suppress(FullDisk):
                _move(store, found.moved)
            for paths in _in_turn(found.objects):
                if not is_held():
                    raise StoreError(
                        "busy",
                        f"`tercet gc` paused for too long, and runs on {store.location} may "
                        "use what it found meanwhile: repeat the command.",
                    )
                store.each(store.delete, paths)
            for folder in found.near:
                shutil.rmtree(store.work / folder, ignore_errors=True)
            _move(store, found.moved)
    return found


def _in_turn(objects: Collection[str]) -> Iterator[list[str]]:
    """The paths in their order, those together that need no order among each other."""
    kind = lambda path: _rank(path)[0] if path.startswith("artifacts/") else -1  # noqa: E731
    for _, group in groupby(objects, kind):
        while paths := list(islice(group, _AT_ONCE)):
            yield paths


def _move(store: Store, moved: Mapping[str, Mapping[str, Any]]) -> None:
    for path, place in moved.items():
        if store.read_json(path) != place:
            store.replace(path, json_bytes(place))


def _found(store: Store, keep: int | None, since: float) -> Garbage:
    """since: the time, in seconds since the epoch, from which on everything is too young."""
    snapshot = read_snapshot(store)
    kept = kept_runs(snapshot.runs, snapshot.tags.values(), keep)
    used = {run["run_id"]: runs.used(store, run) for run in snapshot.runs}
    if store.damaged:
        # A record that cannot be read would lose all that it uses.
        raise Damaged(f"{store.location}/{min(store.damaged)} is damaged (not JSON)")
    named = set(snapshot.tags.values()).union(*(used[run["run_id"]] for run in kept))
    live = with_stand_ins(snapshot, named)
    busy = set[str]().union(*(used[run["run_id"]] for run in kept if run["state"] == "running"))
    there = store.stats("")
    owned = list(_by_artifact(snapshot, there))
    young = {
        entry.name
        for entry, own in owned
        if entry.name not in live and (_is_young(own, since) or _is_being_made(store, entry))
    }
    # Without the versions that it builds on, nobody could finish what was begun.
    live |= {
        f"{entry.artifact.step}@{version}"
        for entry in snapshot.entries
        if entry.name in young and entry.manifest is None
        for version in entry.artifact.builds_on()
    }
    files, held = _named(snapshot, live), _named(snapshot, young)
    claims, data = dict[str, int](), dict[str, int]()
    gone = []
    waiting = 0
    for entry, own in owned:
        lost = {path: stat for path, stat in own.items() if path not in files}
        stays = {p: stat for p, stat in lost.items() if entry.name in young or p in held}
        waiting += _bytes(stays)
        free = {path: stat for path, stat in lost.items() if path not in stays}
        if entry.name in live:
            if entry.manifest is not None and entry.name not in busy:
                # All its parts are there, so that nobody names these any more.
                left = {path: stat for path, stat in free.items() if not _is_claim(path)}
                data |= {path: stat.bytes for path, stat in left.items() if stat.written < since}
            continue
        gone += [entry] if free else []
        # Sorted by what they claim: first that something is finished, last what it consists of.
        for path in sorted(free, key=_rank):
            (claims if _is_claim(path) else data)[path] = free[path].bytes
    moved, keys = _keys(store, snapshot, gone)
    left = {path: stat for path, stat in there.items() if _is_left(path, there)}
    data |= {path: stat.bytes for path, stat in left.items() if stat.written < since}
    near, fresh = _work(store, snapshot, kept, live, since)
    return Garbage(
        {path: there[path].bytes for path in keys if path in there} | claims | data,
        near,
        moved,
        waiting + fresh,
        tuple(kept),
        tuple(
            run
            for run in snapshot.runs
            if run not in kept and any(entry.name in used[run["run_id"]] for entry in gone)
        ),
    )


def with_stand_ins(snapshot: Snapshot, artifacts: Collection[str]) -> set[str]:
    """These artifacts, and the versions of the same step whose rows they have in their place.

    One that only read the version that a recipe keeps needs it no more once it is finished.
    """
    found = set(artifacts)
    for entry in snapshot.entries:
        config = ((entry.manifest or {}).get("components") or {}).get("config") or {}
        if entry.name in artifacts and config.keys() == {"keep"}:
            found.add(f"{entry.artifact.step}@{config['keep']}")
    return found


def _is_being_made(store: Store, entry: Entry) -> bool:
    return locks.is_held(store, f"artifact-{entry.artifact.step}-{entry.artifact.version}")


def _named(snapshot: Snapshot, artifacts: Collection[str]) -> set[str]:
    """The files that the records of these artifacts name, wherever they lie."""
    return {
        path
        for entry in snapshot.entries
        if entry.name in artifacts
        for record in entry.records
        for path in paths_of(record)
    }


def _by_artifact(
    snapshot: Snapshot, there: Mapping[str, Stat]
) -> Iterator[tuple[Entry, dict[str, Stat]]]:
    """Each artifact with the store's own objects in its folder; without what strangers left."""
    grouped: dict[str, dict[str, Stat]] = {}
    for path, stat in there.items():
        if path.startswith("artifacts/") and is_own(path):
            grouped.setdefault("/".join(path.split("/")[:3]), {})[path] = stat
    for entry in snapshot.entries:
        yield entry, grouped.get(entry.artifact.path, {})


def _is_claim(path: str) -> bool:
    return path.split("/")[3] in _CLAIMS and unfinished(path) == path


def _rank(path: str) -> tuple[int, str]:
    kind = path.split("/")[3]
    return (_CLAIMS.index(kind) if kind in _CLAIMS else len(_CLAIMS)), path


def _is_young(objects: Mapping[str, Stat], since: float) -> bool:
    return any(stat.written >= since for stat in objects.values())


def _bytes(objects: Mapping[str, Stat]) -> int:
    return sum(stat.bytes for stat in objects.values())


def _keys(
    store: Store, snapshot: Snapshot, gone: Sequence[Entry]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Where the parts of the artifacts that go are noted: the notes that name another artifact with
    the same part from then on, or its later runs would make it again; and those that go.
    """
    names = {entry.name for entry in gone}
    places = {
        key_path(entry.artifact.step, record["key"]): entry.artifact.place(record["index"])
        for entry in snapshot.entries
        if entry.name not in names
        for record in entry.records
    }
    moved, lost = {}, []
    for entry in gone:
        for record in entry.records:
            path = key_path(entry.artifact.step, record["key"])
            if store.read_json(path) != entry.artifact.place(record["index"]):
                continue
            if path in places:
                moved[path] = places[path]
            else:
                lost.append(path)
    return moved, lost


def _is_left(path: str, there: Mapping[str, Stat]) -> bool:
    """Whether a small object is one that a killed process was writing, or of a removed run."""
    folder, *below = path.split("/")
    if not is_own(path) or (below and folder not in _RECORDS):
        return False
    return unfinished(path) != path or (
        folder == "runs" and f"runs/{below[0]}/start.json" not in there
    )


def _work(
    store: Store, snapshot: Snapshot, kept: Sequence[Run], live: Collection[str], since: float
) -> tuple[dict[str, int], int]:
    """What nobody goes on with in the work directory, and the bytes of what is too young."""
    resumed = set(live) - {entry.name for entry in snapshot.entries if entry.manifest is not None}
    versions = {name.rpartition("@")[2] for name in live}
    going = {run["run_id"] for run in kept}
    grouped: dict[str, dict[str, Stat]] = {}
    for path, stat in store.near.stats("scratch").items():
        first, _, rest = path.removeprefix("scratch/").partition("/")
        folder = f"scratch/{first}"
        if found := _ENGINE.fullmatch(first):
            stays = found[1] in going
        elif found := _SQL.fullmatch(first):
            stays = locks.alive(int(found[1]))
        else:
            # STEP/VERSION, or an index that was being built.
            version = rest.partition("/")[0]
            stays = f"{first}@{version}" in resumed
            folder = f"{folder}/{version}"
        if not stays:
            grouped.setdefault(folder, {})[path] = stat
    for path, stat in store.near.stats("cache/bm25").items():
        folder = "/".join(path.split("/")[:3])
        if folder.split("/")[2].partition("-")[0] not in versions:
            grouped.setdefault(folder, {})[path] = stat
    sizes = {folder: _bytes(group) for folder, group in grouped.items()}
    young = {folder for folder, group in grouped.items() if _is_young(group, since)}
    old = {folder: size for folder, size in sizes.items() if folder not in young}
    return old, sum(sizes[folder] for folder in young)
