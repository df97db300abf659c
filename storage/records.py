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
    """What is in a record besides its files: `source` of the info stands at the top level."""
    rest = {name: value for name, value in info.items() if name != "source"}
    return {
        "index": index,
        "key": key,
        "created": now(),
        "source": info.get("source") or [],
        "info": rest,
    }


def paths_of(record: Record | None) -> list[str]:
    """The paths of all files in the record, also of those that lie in other artifacts."""
    if record is None:
        return []
    data = [file["path"] for files in record["tables"].values() for file in files]
    models = [file["path"] for file in record["files"]]
    return data + models + list(record["schemas"].values())


def whole(store: Store, records: Sequence[Record]) -> list[Record]:
    """The records whose files are all there, with tables of the size that the record says."""
    parents = {path.rpartition("/")[0] for record in records for path in paths_of(record)}
    there: dict[str, int] = {}
    # artifacts/STEP/VERSION/data, without the records beside it.
    folders = {"/".join(parent.split("/")[:4]) for parent in parents}
    for sizes in store.each(store.sizes, folders):
        there |= sizes
    return [
        record
        for record in records
        if all(path in there for path in paths_of(record))
        and all(there[file["path"]] == file["bytes"] for file in _table_files(record))
    ]


def faults(
    store: Store, records: Sequence[Record], tables: bool = True, aside: Path | None = None
) -> dict[str, str]:
    """The faults of files of these records, by path: their content is compared.

    tables: those with rows, too; otherwise the models' files alone.
    aside: a folder for objects that lie elsewhere, which are fetched anew; by default the work
        directory's copies count, and those that differ are fetched again.
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
    """The records whose files are all there, and have the content that the record says."""
    present = whole(store, records)
    differing = faults(store, present)
    return [record for record in present if differing.keys().isdisjoint(paths_of(record))]


def _table_files(record: Record) -> list[dict[str, Any]]:
    return [file for files in record["tables"].values() for file in files]


def _fault(store: Store, aside: Path | None, file: Mapping[str, Any]) -> str | None:
    """The fault of this file; None if its content is what the record says."""
    path = file["path"]
    fetch = store.local if aside is None else partial(store.objects.local, cache=aside)
    try:
        with clear_errors(store.location):
            fault = _difference(fetch(path), file)
            if fault is not None and not isinstance(store.objects, Folder):
                # The copy may have been spoilt here, and not the object.
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
    """The file's digest, read once by this process as long as nobody writes the file."""
    return file_digest(path)


def files_by_table(records: Sequence[Record]) -> dict[str, list[str]]:
    """Each table's data files in these records, in order; for an empty one a file without rows."""
    found: dict[str, list[str]] = {}
    for record in records:
        for table, files in record["tables"].items():
            found.setdefault(table, []).extend(file["path"] for file in files)
    for record in records:
        for table, path in record["schemas"].items():
            if not found.get(table):
                found[table] = [path]
    return found


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
    """The time as records and manifests have it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# Rounds: how often a step asked again about its failed rows (`tercet run --retry-failed`).
#
# rounds/<step>/<key>/0002.json    created if absent; the highest number counts


def current_round(store: Store, step: str, key: str) -> int:
    """The step's current round; 0 if it never asked again."""
    names = store.list(f"rounds/{step}/{key}")
    return max((int(name.removesuffix(".json")) for name in names), default=0)


def next_round(store: Store, step: str, key: str) -> None:
    """Starts the next round. Two runs that do so at once start the same one."""
    number = current_round(store, step, key) + 1
    store.create_json(f"rounds/{step}/{key}/{number:04d}.json", {"round": number})
