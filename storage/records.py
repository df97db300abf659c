"""Records of parts: the files of each table, the model's files, and where the rows came from."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from tercet.storage.fingerprint import file_digest
from tercet.storage.objects import Folder
from tercet.storage.store import Store, clear_errors

Record = dict[str, Any]


def described(index: int, key: str, info: Mapping[str, Any]) -> Record:
    """A record's fields other than its files; `source` moves from the info to the top level."""
    rest = {name: value for name, value in info.items() if name != "source"}
    return {
        "index": index,
        "key": key,
        "created": now(),
        "source": info.get("source") or [],
        "info": rest,
    }


def paths_of(record: Record | None) -> list[str]:
    """The paths of all files in the record, including files that lie in other artifacts."""
    if record is None:
        return []
    data = [file["path"] for files in record["tables"].values() for file in files]
    models = [file["path"] for file in record["files"]]
    return data + models + list(record["schemas"].values())


def whole(store: Store, records: Sequence[Record]) -> list[Record]:
    """The records whose files all exist; table files must have the recorded size."""
    parents = {path.rpartition("/")[0] for record in records for path in paths_of(record)}
    sizes: dict[str, int] = {}
    # artifacts/STEP/VERSION/data, without the records beside it.
    folders = {"/".join(parent.split("/")[:4]) for parent in parents}
    for listed in store.each(store.sizes, folders):
        sizes |= listed
    return [
        record
        for record in records
        if all(path in sizes for path in paths_of(record))
        and all(sizes[file["path"]] == file["bytes"] for file in _table_files(record))
    ]


def faults(
    store: Store, records: Sequence[Record], tables: bool = True, aside: Path | None = None
) -> dict[str, str]:
    """Compares the content of these records' files with their digests; returns faults by path.

    tables: also check table files; otherwise only model files.
    aside: a folder into which remote objects are fetched again. By default the copies in the work
        directory are checked, and a copy that differs is fetched again.
    """
    files = {
        file["path"]: file
        for record in records
        for file in (*record["files"], *(_table_files(record) if tables else ()))
    }
    if tables:
        # A schema's file is named by its digest.
        schemas = {path for record in records for path in record["schemas"].values()}
        files |= {path: {"path": path, "digest": Path(path).stem} for path in schemas}
    differences = store.each(partial(_fault, store, aside), files.values())
    return {
        path: fault for path, fault in zip(files, differences, strict=True) if fault is not None
    }


def sound(store: Store, records: Sequence[Record]) -> list[Record]:
    """The records whose files all exist with the recorded content."""
    present = whole(store, records)
    differing = faults(store, present)
    return [record for record in present if differing.keys().isdisjoint(paths_of(record))]


def _table_files(record: Record) -> list[dict[str, Any]]:
    return [file for files in record["tables"].values() for file in files]


def _fault(store: Store, aside: Path | None, file: Mapping[str, Any]) -> str | None:
    """The file's fault; None if its content is as recorded."""
    path = file["path"]
    fetch = store.local if aside is None else partial(store.objects.local, cache=aside)
    try:
        with clear_errors(store.location):
            fault = _difference(fetch(path), file)
            if fault is not None and not isinstance(store.objects, Folder):
                # Perhaps only the local copy is damaged: fetch the object again.
                fetch(path).unlink()
                fault = _difference(fetch(path), file)
            if aside is not None:
                (aside / path).unlink(missing_ok=True)
            return fault
    except FileNotFoundError:
        return "is missing"


def _difference(place: Path, file: Mapping[str, Any]) -> str | None:
    stat = place.stat()
    if stat.st_size != file.get("bytes", stat.st_size):
        return f"has {stat.st_size:,} bytes instead of {file['bytes']:,}"
    digest = _digest(place, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return None if digest == file["digest"] else "has changed"


@cache
def _digest(path: Path, size: int, written: int, changed: int) -> str:
    """The file's digest, cached until its size or times change."""
    return file_digest(path)


def files_by_table(records: Sequence[Record]) -> dict[str, list[str]]:
    """Each table's data files in these records, in order; an empty table has its schema's file."""
    paths: dict[str, list[str]] = {}
    for record in records:
        for table, files in record["tables"].items():
            paths.setdefault(table, []).extend(file["path"] for file in files)
    for record in records:
        for table, path in record["schemas"].items():
            if not paths.get(table):
                paths[table] = [path]
    return paths


def totals(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """Rows, files and bytes of each table in these records, including empty tables."""
    sums: dict[str, dict[str, int]] = {}
    for record in records:
        for table in record["schemas"]:
            sums.setdefault(table, {"rows": 0, "files": 0, "bytes": 0})
        for table, files in record["tables"].items():
            total = sums.setdefault(table, {"rows": 0, "files": 0, "bytes": 0})
            total["rows"] += sum(file["rows"] for file in files)
            total["files"] += len(files)
            total["bytes"] += sum(file["bytes"] for file in files)
    return sums


def now() -> str:
    """The current time in UTC, ISO 8601, as written in records and manifests."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# Rounds: how often a step retried its failed rows (`tercet run --retry-failed`).
#
# rounds/<step>/<key>/0002.json    created if absent; the highest number counts


def current_round(store: Store, step: str, key: str) -> int:
    """The step's current round; 0 before its first retry."""
    names = store.list(f"rounds/{step}/{key}")
    return max((int(name.removesuffix(".json")) for name in names), default=0)


def next_round(store: Store, step: str, key: str) -> None:
    """Starts the next round. Two runs that call this at the same time start the same round."""
    number = current_round(store, step, key) + 1
    store.create_json(f"rounds/{step}/{key}/{number:04d}.json", {"round": number})
