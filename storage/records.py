"""Records of parts: the files of each table, the model's files, and where the rows came from."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tercet.storage.store import Store

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
        and all(
            there[file["path"]] == file["bytes"]
            for files in record["tables"].values()
            for file in files
        )
    ]


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
