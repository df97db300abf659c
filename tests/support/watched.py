"""What runs that live and die leave in a store: nothing goes, nothing is half there."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
from tiny_run import records

from tercet.storage.fingerprint import file_digest
from tercet.storage.store import open_store

# What a killed process may leave until `tercet gc`, by path in the store. Everything else goes.
LEFT = {
    "what it was writing when it was killed": r"(store\.json|(artifacts|keys|runs|schemas)/.*)#\d+",
}
TEMPORARY = r".*\.writing|\.catalog-.*|\.probe-.*|scratch/.*"


class Watched:
    """What a reader has seen of a store, while runs on it lived and died."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.faults: list[str] = []
        self.looked = 0
        self._records: dict[Path, tuple[int, bytes]] = {}
        self._sizes: dict[Path, int] = {}

    def look(self) -> None:
        """Reads every record, what is new of the files they name, and the sizes of the others."""
        self.looked += 1
        for path in self._records:
            self._unchanged(path)
        for path in sorted(self.store.glob("artifacts/*/*/_parts/*.json")):
            if path not in self._records:
                self._records[path] = (path.stat().st_ino, path.read_bytes())
                self._whole(path)
        for path, size in self._sizes.items():
            if not path.exists() or path.stat().st_size != size:
                self.faults.append(f"{path} went or changed")

    def seen(self) -> int:
        return len(self._records)

    def _unchanged(self, path: Path) -> None:
        try:
            now = (path.stat().st_ino, path.read_bytes())
        except FileNotFoundError:
            self.faults.append(f"{path} went")
            return
        if now != self._records[path]:
            self.faults.append(f"{path} was created twice")

    def _whole(self, path: Path) -> None:
        record = json.loads(self._records[path][1])
        tables = [file for files in record["tables"].values() for file in files]
        for file in [*tables, *record["files"]]:
            place = self.store / file["path"]
            if place in self._sizes:
                continue
            if not place.exists():
                self.faults.append(f"{path} names {place}, which is not there")
                continue
            self._sizes[place] = file["bytes"]
            if place.stat().st_size != file["bytes"] or file_digest(place) != file["digest"]:
                self.faults.append(f"{place} is not what {path} says")
            elif "rows" in file and pq.ParquetFile(place).metadata.num_rows != file["rows"]:
                self.faults.append(f"{place} has other rows than {path} says")


def leftovers(store: Path) -> list[str]:
    """Files that belong to nothing, beyond those that `LEFT` tells of."""
    place = open_store(str(store))
    named = {"store.json", "catalog.duckdb"}
    for artifact, record in records(place):
        named |= {f"{artifact}/{name}" for name in ("plan.json", "parts.json", "manifest.json")}
        named |= {file["path"] for files in record["tables"].values() for file in files}
        named |= {file["path"] for file in record["files"]}
        named |= set(record["schemas"].values())
        named.add(f"{artifact}/_parts/{record['index']:05d}.json")
    found = []
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        name = str(path.relative_to(store))
        # A process that is killed while it opens the store leaves its probe.
        others = r"(keys|runs|cache)/[^#]+\.json|(prefect|responses)/.*|\.probe-[^/]+"
        known = name in named or re.fullmatch(others, name)
        left = any(re.fullmatch(pattern, name) for pattern in LEFT.values())
        if re.fullmatch(TEMPORARY, name) or not (known or left):
            found.append(name)
    return found
