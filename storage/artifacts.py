"""Artifacts: a plan of parts, parts that exist once their record does, and a final manifest.

    artifacts/<step>/<version>/plan.json            the parts, as the first run divided them
                               data/<table>/*.parquet   under unique names
                               files/<unique>/…         model files
                               _parts/00003.json    the record: created if absent, last
                               parts.json           all records in one, once they are complete
                               manifest.json        marks the artifact as finished
    keys/<stage>/<key>.json                         where the part with that key was committed
    schemas/<digest>.parquet                        files without rows, for empty tables

Readers rely only on records. A file that no record names does not exist.
"""

import json
import re
import shutil
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.storage import locks
from tercet.storage.fingerprint import file_digest
from tercet.storage.part_writer import StagedPart, put_schema
from tercet.storage.records import (
    Record,
    described,
    faults,
    files_by_table,
    now,
    paths_of,
    sound,
    totals,
    whole,
)
from tercet.storage.rows import Rows
from tercet.storage.store import Damaged, FullDisk, Store, StoreError, clear_errors, json_bytes

MANIFEST = "manifest.json"
PLAN = "plan.json"
ALL_RECORDS = "parts.json"
# Prefix of a note in an artifact's scratch: the files that an attempt at a part brings.
_UPLOADING = "uploading-"


@dataclass(frozen=True)
class Artifact:
    """One version of one step's output, finished or not."""

    store: Store
    step: str
    version: str

    @property
    def path(self) -> str:
        """Its path in the store."""
        return f"artifacts/{self.step}/{self.version}"

    @property
    def name(self) -> str:
        """`step@version`."""
        return f"{self.step}@{self.version}"

    def components(self) -> dict[str, Any]:
        """What its version is a digest of; empty while it is unfinished."""
        return (self.manifest() or {}).get("components") or {}

    def manifest(self) -> dict[str, Any] | None:
        """The manifest, or None while the artifact is unfinished."""
        found = self.store.read_json(f"{self.path}/{MANIFEST}")
        return None if found is None else dict(found)

    def is_own(self) -> bool:
        """Whether its manifest, if there is one, is that of its step and version."""
        manifest = self.manifest()
        own = {"step": self.step, "version": self.version}
        return manifest is None or manifest | own == manifest

    def place(self, index: int) -> dict[str, Any]:
        """What is noted under a part's key."""
        return {"step": self.step, "version": self.version, "index": index}

    def plan(self) -> list[dict[str, Any]] | None:
        """The part plan, or None before there is one."""
        found = self.store.read_json(f"{self.path}/{PLAN}")
        return None if found is None else list(found)

    def builds_on(self) -> set[str]:
        """The earlier versions of its step whose rows its plan takes over."""
        return {version for part in self.plan() or () for version in part.get("known", ())}

    def adopt_plan(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Proposes a plan; returns the valid one, which may be another run's."""
        if self.store.create_json(f"{self.path}/{PLAN}", parts):
            return parts
        standing = self.plan()
        return parts if standing is None else standing

    def record(self, index: int) -> Record | None:
        """The part's record, or None while the part does not exist."""
        found = self.store.read_json(self.record_path(index))
        return None if found is None else dict(found)

    def records(self) -> dict[int, Record]:
        """All records so far by index, in order."""
        together = self.store.read_json(f"{self.path}/{ALL_RECORDS}")
        if together is not None:
            return {record["index"]: record for record in together}
        names = self.store.list(f"{self.path}/_parts")
        found = self.store.each(
            lambda name: self.store.read_json(f"{self.path}/_parts/{name}"), names
        )
        records = {record["index"]: dict(record) for record in found if record is not None}
        return dict(sorted(records.items()))

    def whole_parts(self) -> list[int]:
        """The parts whose files are there, tables of the size that their records say."""
        return [one["index"] for one in whole(self.store, list(self.records().values()))]

    def intact(self) -> bool:
        """Whether every record that its manifest counts is there, and every file that they name."""
        records, manifest = self.records(), self.manifest()
        counted = len(records) if manifest is None else manifest["parts"]
        return (
            not self.damaged_records()
            and counted == len(records)
            and len(records) == len(whole(self.store, list(records.values())))
        )

    def damaged_records(self) -> list[str]:
        """The paths of its records that were read so far and are damaged."""
        return sorted(path for path in self.store.damaged if path.startswith(f"{self.path}/"))

    def repair(self, anew: bool = False) -> None:
        """Makes it unfinished, without the parts that are not sound: these alone are made again.

        anew: without any part, and without its plan.
        """
        plan = self.plan()
        # Without its plan nobody knows what the parts hold; without the versions that it builds on
        # nobody can carry it out.
        there = not anew and all(
            Artifact(self.store, self.step, one).manifest() for one in self.builds_on()
        )
        records = self.records()
        kept = sound(self.store, list(records.values())) if plan is not None and there else []
        lost = {self.record_path(index) for index in set(records) - {one["index"] for one in kept}}
        self.store.known.clear()
        self.store.delete(f"{self.path}/{MANIFEST}")
        self.store.delete(f"{self.path}/{ALL_RECORDS}")
        self.store.each(self.store.delete, lost | set(self.damaged_records()))
        if not there:
            self.store.delete(f"{self.path}/{PLAN}")

    def clear_scratch(self) -> None:
        """Removes the working directory, which stays behind after a kill late in the commit."""
        shutil.rmtree(self.store.work / "scratch" / self.step / self.version, ignore_errors=True)

    def scratch(self) -> Path:
        """A local working directory, which survives a kill and is removed with the manifest."""
        folder = self.store.work / "scratch" / self.step / self.version
        with clear_errors(self.store.location):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, index: int, part: StagedPart, key: str, info: Mapping[str, Any]) -> Record:
        """Commits the part: data files under unique names, then the record, if absent.

        Args:
            index: The part's index in the plan.
            part: Its data files are moved into the store, its model files copied.
            key: Digest of what the part's rows depend on; `find_part` finds the part by it.
            info: Kept in the record; its `source` (input digests) is moved to the top level.

        Returns:
            The valid record. If another process was first, it is that one's. Files that the valid
            record does not name are removed.
        """
        places = self._places(index, part)
        note = self.scratch() / f"{_UPLOADING}{uuid.uuid4().hex}"
        uploaded = False
        try:
            with clear_errors(self.store.location):
                note.write_bytes(json_bytes(list(places.values())))
            record = self._upload(part, places) | described(index, key, info)
            uploaded = True
            if not self.store.create_json(self.record_path(index), record):
                record = self._standing(index)
                self._remove(places, record)
        except BaseException as error:
            # Whether a bucket makes a record after all nobody knows: `finish` finds the note.
            if not uploaded or isinstance(error, FullDisk):
                with suppress(StoreError):
                    self._remove(places, self.record(index))
            raise
        note.unlink(missing_ok=True)
        self._remember(record)
        return record

    def reference(self, index: int, record: Record, info: Mapping[str, Any]) -> Record:
        """Commits a part whose files are already in another artifact; returns the valid record."""
        kept = {name: record[name] for name in ("tables", "files", "schemas")}
        merged = {"source": record.get("source"), **info}
        created = kept | described(index, record["key"], merged)
        if self.store.create_json(self.record_path(index), created):
            return created
        return self._standing(index)

    def finish(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Writes the manifest if absent, with the tables' totals; returns the valid one.

        Raises ValueError if parts of the plan are missing.
        """
        records = self.records()
        missing = sorted(set(range(len(self.plan() or ()))) - set(records))
        if missing:
            raise ValueError(f"{self.name} lacks {len(missing)} of its parts.")
        noted = set(self.store.list(_keys(self.step)))
        for record in records.values():
            # Missing if a process was killed between the record and this entry.
            if f"{record['key']}.json" not in noted:
                self._remember(record)
        self._clear_uploads(records)
        finished = {
            "step": self.step,
            "version": self.version,
            "created": now(),
            "parts": len(records),
            **manifest,
            "tables": totals(list(records.values())),
        }
        self.store.create_json(f"{self.path}/{ALL_RECORDS}", list(records.values()))
        if not self.store.create_json(f"{self.path}/{MANIFEST}", finished):
            finished = self.manifest() or finished
        self.clear_scratch()
        return finished

    def rows(self, known_schemas: Mapping[str, pa.Schema] | None = None) -> Rows:
        """The rows of all committed parts, in the plan's order.

        `known_schemas` adds empty tables, even if no part has been committed.
        """
        records = list(self.records().values())
        tables: dict[str, tuple[str, ...]] = {}
        for table, paths in files_by_table(records).items():
            tables[table] = tuple(map(str, self.store.each(self.store.local, paths)))
        for table, schema in (known_schemas or {}).items():
            if table not in tables:
                tables[table] = (str(self.store.local(put_schema(self.store, schema))),)
        return Rows(tables, (self.version,))

    def model_dir(self) -> Path | None:
        """The directory of a model artifact's files, or None if it has none.

        Raises Damaged where their content is not what the record says.
        """
        for record in self.records().values():
            if record["files"]:
                paths = [file["path"] for file in record["files"]]
                for path, fault in faults(self.store, [record], tables=False).items():
                    raise Damaged(f"{self.name} is damaged ({self.store.location}/{path} {fault})")
                places = self.store.each(self.store.local, paths)
                # artifacts/STEP/VERSION/files/UNIQUE/…
                return places[0].parents[len(record["files"][0]["path"].split("/")) - 6]
        return None

    def record_path(self, index: int) -> str:
        """Where the part's record lies."""
        return f"{self.path}/_parts/{index:05d}.json"

    def _standing(self, index: int) -> Record:
        record = self.record(index)
        if record is None:
            raise StoreError(
                "gone",
                f"{self.store.location}/{self.path} was removed while it was being made: "
                "repeat the command.",
            )
        return record

    def _places(self, index: int, part: StagedPart) -> dict[Path, str]:
        """Where each file of the part goes, under a name that no other attempt gives."""
        unique = f"{index:05d}-{uuid.uuid4().hex[:12]}"
        places = {
            file.path: f"{self.path}/data/{table}/{unique}-{number:03d}.parquet"
            for table, files in part.files.items()
            for number, file in enumerate(files)
        }
        for source in [] if part.directory is None else sorted(part.directory.rglob("*")):
            if source.is_file() and part.directory is not None:
                name = source.relative_to(part.directory).as_posix()
                places[source] = f"{self.path}/files/{unique}/{name}"
        return places

    def _upload(self, part: StagedPart, places: Mapping[Path, str]) -> dict[str, Any]:
        tables: dict[str, list[dict[str, Any]]] = {}
        models = dict(places)
        for table, files in part.files.items():
            tables[table] = []
            for file in files:
                path = models.pop(file.path)
                self.store.put_file(path, file.path, move=True)
                entry = {"path": path, "rows": file.rows, "bytes": file.bytes}
                tables[table].append(entry | {"digest": file.digest})
        schemas = {name: put_schema(self.store, schema) for name, schema in part.schemas.items()}
        files_ = []
        for source, path in models.items():
            self.store.put_file(path, source)
            size = source.stat().st_size
            files_.append({"path": path, "bytes": size, "digest": file_digest(source)})
        return {"tables": tables, "files": files_, "schemas": schemas}

    def _remove(self, places: Mapping[Path, str], standing: Record | None) -> None:
        """Removes the part's files, except those that the standing record names."""
        for path in set(places.values()) - set(paths_of(standing)):
            with suppress(StoreError, FileNotFoundError):
                self.store.delete(path)
        for source, path in places.items():
            if path.startswith(f"{self.path}/data/"):
                with suppress(OSError):
                    source.unlink()

    def _clear_uploads(self, records: Mapping[int, Record]) -> None:
        """Removes what killed attempts at the parts have left: now that every part has its record,
        nobody will name it any more.
        """
        named = {path for record in records.values() for path in paths_of(record)}
        for note in self.scratch().glob(f"{_UPLOADING}*"):
            with suppress(ValueError):
                for path in {*json.loads(note.read_bytes())} - named:
                    self.store.delete(path)
                    # Under this name it is written in a local directory.
                    self.store.delete(f"{path}#1")

    def _remember(self, record: Record) -> None:
        place = json_bytes(self.place(record["index"]))
        self.store.replace(key_path(self.step, record["key"]), place)


def open_artifact(store: Store, step: str, version: str) -> Artifact:
    """The artifact of this step and version, whether or not any of it exists."""
    return Artifact(store, step, version)


def artifacts_of(store: Store, step: str) -> list[Artifact]:
    """Every artifact of the step, finished or not; one that was copied to another name is none."""
    return _owned(store, [(step, version) for version in store.list(f"artifacts/{step}")])


def all_artifacts(store: Store) -> list[Artifact]:
    """Every artifact in the store, finished or not."""
    steps = store.list("artifacts")
    versions = store.each(lambda step: store.list(f"artifacts/{step}"), steps)
    pairs = zip(steps, versions, strict=True)
    return _owned(store, [(step, version) for step, found in pairs for version in found])


def _owned(store: Store, names: Sequence[tuple[str, str]]) -> list[Artifact]:
    found = [Artifact(store, step, version) for step, version in names]
    owned = zip(found, store.each(Artifact.is_own, found), strict=True)
    return [artifact for artifact, is_own in owned if is_own]


def find_parts(store: Store, step_kind: str, keys: Collection[str]) -> dict[str, Record]:
    """The records of parts with these keys, by key, of those whose files are still as they were.

    `step_kind` is the stage's name; a step's name (`synthesise.negation`) means its stage.
    """
    folder = _keys(step_kind)
    noted = {f"{key}.json": key for key in keys}
    records: dict[str, dict[int, Record]] = {}
    found = {}
    names = list(noted.keys() & set(store.list(folder) if noted else ()))
    places = store.each(lambda name: store.read_json(f"{folder}/{name}"), names)
    for name, place in zip(names, places, strict=True):
        if place is None:
            continue
        key = noted[name]
        artifact = Artifact(store, place["step"], place["version"])
        if artifact.path not in records:
            records[artifact.path] = artifact.records()
        record = records[artifact.path].get(place["index"])
        if record is not None and record["key"] == key:
            found[key] = record
    return {record["key"]: record for record in sound(store, list(found.values()))}


def key_path(step: str, key: str) -> str:
    """Where it is noted in which artifact the part with this key was made."""
    return f"{_keys(step)}/{key}.json"


def _keys(step: str) -> str:
    return f"keys/{step.partition('.')[0]}"


# What killed processes left where it is seen at once; `garbage` finds the rest.
# Named after the process that writes it: a probe, DuckDB's spill, an index.
_OF_A_PROCESS = re.compile(r"(?:\.probe|sql|bm25)-(\d+)(?:-[0-9a-f]+)?")
# A process of another container or machine has a number that means nobody here.
_UNTOUCHED_SECONDS = 3_600.0


def sweep_leftovers(store: Store) -> None:
    """Removes what is certainly a dead process's: its locks, and what has its number and was not
    written to for an hour.

    It lists three folders of the work directory, which are short however large the store is.
    """
    locks.sweep(store)
    for folder in (store.work, store.work / "scratch"):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                found = _OF_A_PROCESS.fullmatch(path.name)
                if found and not locks.alive(int(found[1])):
                    with suppress(OSError):
                        if path.stat().st_mtime < time.time() - _UNTOUCHED_SECONDS:
                            shutil.rmtree(path) if path.is_dir() else path.unlink()


WARNINGS = pa.schema(
    [
        ("step", pa.string()),
        ("stage", pa.string()),
        ("version", pa.string()),
        ("key", pa.string()),
        ("kind", pa.string()),
        ("count", pa.int64()),
        ("total", pa.int64()),
        ("message", pa.string()),
        ("example", pa.string()),
        ("remedy", pa.string()),
    ]
)
"""Table `warnings`. What went wrong without an error, in the newest run or that of `--run`, in the
order of its steps. It is looked for once, while an artifact is made; `run` says it then, and `run`,
`plan`, `show`, report and cards list it. Artifacts of older versions have none.

Columns:
    step: the step in whose rows it shows
    stage: its stage
    version: → `artifacts.version`
    key: the corpus, split, method, part, phase, set or figure that it is about; NULL: the whole
        step
    kind: one of the [kinds](sql.md#kinds-of-warnings)
    count: so many rows are of this kind
    total: out of so many
    message: what was found
    example: one such row's text or fault; NULL where none helps
    remedy: what to do
"""


def warnings_of(artifact: Artifact) -> list[dict[str, Any]]:
    """Those of a finished artifact; none of an unfinished one, or of an older Tercet's."""
    found = (artifact.manifest() or {}).get("warnings", ())
    return [{"version": artifact.version, **warning} for warning in found]
