"""Garbage collection: finds and deletes objects that no run and no tag uses any more.

Artifacts share files: a part that is reused by its key names the files of the artifact in which it
was first made. Files are therefore marked through the records of all artifacts that a run or a tag
uses.

The lock `runs.COLLECTION` separates runs from a collection. A run holds it while it notes which
artifacts it may use and while it refers to the files of a reused part; a collection holds it while
it reads these notes and deletes. A run therefore finds an artifact whole and keeps it, or does not
find it and makes it. Records are deleted before the files that they name: a killed collection
leaves no record of missing files.

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

# Younger objects are never deleted.
YOUNG_SECONDS = 86_400.0
# Objects deleted between two checks that the lock is still held.
_AT_ONCE = 100

_RECORDS = ("keys", "rounds", "runs", "schemas", "tags")
# Index objects of an artifact, in deletion order (indexes before the data they list).
_CLAIMS = ("manifest.json", "parts.json", "_parts", "plan.json")
_ENGINE, _SQL = re.compile(r"engine-(.+)"), re.compile(r"sql-(\d+)(?:-[0-9a-f]+)?")


@dataclass(frozen=True)
class Garbage:
    """Objects that can be deleted, and the consequences.

    objects: bytes by path, in deletion order.
    near: bytes by folder of the work directory.
    moved: new contents of part keys whose artifact goes while another has the same part.
    waiting: bytes that are too young, named by young artifacts, or being made.
    kept: the runs whose artifacts stay. lost: other runs that lose artifacts.
    """

    objects: Mapping[str, int]
    near: Mapping[str, int]
    moved: Mapping[str, Mapping[str, Any]]
    waiting: int
    kept: tuple[Run, ...]
    lost: tuple[Run, ...]


def kept_runs(runs_: Sequence[Run], tags: Collection[str], keep: int | None) -> list[Run]:
    """The runs whose artifacts stay; without `keep` all.

    For each recipe with the same options: the last `keep` finished runs and all since, except those
    of `tercet try`; and every run that is going on or has a tag.

    runs_: newest first. tags: the targets of tags.
    """
    if keep is None:
        return list(runs_)
    done: Counter[str] = Counter()
    kept = []
    for run in runs_:
        arguments = {**run["info"].get("arguments", {}), "recipe": run["recipe_name"]}
        group = json.dumps({**arguments, "retry_failed": None}, sort_keys=True)
        is_recent = run["info"].get("tried") is None and done[group] < keep
        if is_recent or run["state"] == "running" or run["run_id"] in tags:
            kept.append(run)
        done[group] += run["state"] == "done"
    return kept


def collect(
    store: Store,
    keep: int | None = None,
    delete: bool = False,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Garbage:
    """Finds objects that no tag and no kept run uses; with `delete` also deletes them.

    keep: as in `kept_runs`. A tag keeps the run or the version that it names.
    waiting: as in `locks.hold`, for another collection.

    Raises FullDisk and StoreError like the store.
    """
    alone = locks.hold(store, runs.COLLECTION, waiting, who="tercet gc")
    with alone if delete else nullcontext() as is_held:
        garbage = _find(store, keep, time.time() - YOUNG_SECONDS)
        if is_held is not None:
            # On a full disk this succeeds only after the deletions, and is repeated below.
            with suppress(FullDisk):
                _move(store, garbage.moved)
            for paths in _batches(garbage.objects):
                if not is_held():
                    raise StoreError(
                        "busy",
                        f"`tercet gc` paused for too long, and runs on {store.location} may "
                        "use what it found meanwhile: repeat the command.",
                    )
                store.each(store.delete, paths)
            for folder in garbage.near:
                shutil.rmtree(store.work / folder, ignore_errors=True)
            _move(store, garbage.moved)
    return garbage


def _batches(objects: Collection[str]) -> Iterator[list[str]]:
    """The paths in deletion order, in batches that may be deleted concurrently."""
    kind = lambda path: _rank(path)[0] if path.startswith("artifacts/") else -1  # noqa: E731
    for _, group in groupby(objects, kind):
        while paths := list(islice(group, _AT_ONCE)):
            yield paths


def _move(store: Store, moved: Mapping[str, Mapping[str, Any]]) -> None:
    for path, place in moved.items():
        if store.read_json(path) != place:
            store.replace(path, json_bytes(place))


def _find(store: Store, keep: int | None, since: float) -> Garbage:
    """since: in seconds since the epoch; objects written later are too young."""
    snapshot = read_snapshot(store)
    kept = kept_runs(snapshot.runs, snapshot.tags.values(), keep)
    used = {run["run_id"]: runs.used(store, run) for run in snapshot.runs}
    if store.damaged:
        # Artifacts that only an unreadable record uses would be deleted.
        raise Damaged(f"{store.location}/{min(store.damaged)} is damaged (not JSON)")
    named = set(snapshot.tags.values()).union(*(used[run["run_id"]] for run in kept))
    live = with_stand_ins(snapshot, named)
    busy = set[str]().union(*(used[run["run_id"]] for run in kept if run["state"] == "running"))
    stats = store.stats("")
    by_artifact = list(_by_artifact(snapshot, stats))
    young = {
        entry.name
        for entry, objects in by_artifact
        if entry.name not in live
        and (
            _is_young(objects, since)
            # The artifact is being made.
            or locks.is_held(store, f"artifact-{entry.artifact.step}-{entry.artifact.version}")
        )
    }
    # An unfinished artifact needs the versions that it builds on.
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
    for entry, objects in by_artifact:
        lost = {path: stat for path, stat in objects.items() if path not in files}
        stays = {p: stat for p, stat in lost.items() if entry.name in young or p in held}
        waiting += _bytes(stays)
        free = {path: stat for path, stat in lost.items() if path not in stays}
        if entry.name in live:
            if entry.manifest is not None and entry.name not in busy:
                # The artifact is finished, so no record will name these files any more.
                left = {path: stat for path, stat in free.items() if not _is_claim(path)}
                data |= {path: stat.bytes for path, stat in left.items() if stat.written < since}
            continue
        gone += [entry] if free else []
        for path in sorted(free, key=_rank):
            (claims if _is_claim(path) else data)[path] = free[path].bytes
    moved, keys = _keys(store, snapshot, gone)
    left = {path: stat for path, stat in stats.items() if _is_left(path, stats)}
    data |= {path: stat.bytes for path, stat in left.items() if stat.written < since}
    near, fresh = _work(store, snapshot, kept, live, since)
    return Garbage(
        {path: stats[path].bytes for path in keys if path in stats} | claims | data,
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
    """These artifacts, and the versions that they stand for where a recipe keeps a step's rows
    (`keep: VERSION`).
    """
    names = set(artifacts)
    for entry in snapshot.entries:
        config = ((entry.manifest or {}).get("components") or {}).get("config") or {}
        if entry.name in artifacts and config.keys() == {"keep"}:
            names.add(f"{entry.artifact.step}@{config['keep']}")
    return names


def _named(snapshot: Snapshot, artifacts: Collection[str]) -> set[str]:
    """The files that these artifacts' records name, including files of other artifacts."""
    return {
        path
        for entry in snapshot.entries
        if entry.name in artifacts
        for record in entry.records
        for path in paths_of(record)
    }


def _by_artifact(
    snapshot: Snapshot, stats: Mapping[str, Stat]
) -> Iterator[tuple[Entry, dict[str, Stat]]]:
    """Each artifact with the store's own objects in its folder."""
    grouped: dict[str, dict[str, Stat]] = {}
    for path, stat in stats.items():
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
    """The keys of parts whose artifact goes: new contents by path, for parts that another artifact
    has too; and the paths of the remaining keys, which are deleted.
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


def _is_left(path: str, stats: Mapping[str, Stat]) -> bool:
    """Whether a record was left unfinished by a killed process, or belongs to a removed run."""
    folder, *below = path.split("/")
    if not is_own(path) or (below and folder not in _RECORDS):
        return False
    return unfinished(path) != path or (
        folder == "runs" and f"runs/{below[0]}/start.json" not in stats
    )


def _work(
    store: Store, snapshot: Snapshot, kept: Sequence[Run], live: Collection[str], since: float
) -> tuple[dict[str, int], int]:
    """Folders of the work directory that nobody uses any more, with their bytes; and the bytes of
    unused folders that are too young to delete.
    """
    resumed = set(live) - {entry.name for entry in snapshot.entries if entry.manifest is not None}
    versions = {name.rpartition("@")[2] for name in live}
    going = {run["run_id"] for run in kept}
    grouped: dict[str, dict[str, Stat]] = {}
    for path, stat in store.near.stats("scratch").items():
        first, _, rest = path.removeprefix("scratch/").partition("/")
        folder = f"scratch/{first}"
        if match := _ENGINE.fullmatch(first):
            stays = match[1] in going
        elif match := _SQL.fullmatch(first):
            stays = locks.alive(int(match[1]))
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
    users = {*live, *(run["run_id"] for run in snapshot.runs)}
    # Copies of a bucket's objects.
    for kind, depth in (("runs", 4), ("artifacts", 5)):
        for path, stat in store.near.stats(f"cache/objects/{kind}").items():
            folders = path.split("/")[:depth]
            if "@".join(folders[3:]) not in users:
                grouped.setdefault("/".join(folders), {})[path] = stat
    sizes = {folder: _bytes(group) for folder, group in grouped.items()}
    young = {folder for folder, group in grouped.items() if _is_young(group, since)}
    old = {folder: size for folder, size in sizes.items() if folder not in young}
    return old, sum(sizes[folder] for folder in young)
