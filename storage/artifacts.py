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
from itertools import compress
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
# Prefix of a note in an artifact's scratch: the files that an attempt at a part uploads.
_UPLOADING = "uploading-"


@dataclass(frozen=True)
class Artifact:
    """One version of one step's output, finished or not."""

    store: Store
    step: str
    version: str

    @property
    def path(self) -> str:
        """The record's path in the store."""
        return f"artifacts/{self.step}/{self.version}"

    @property
    def name(self) -> str:
        """`step@version`."""
        return f"{self.step}@{self.version}"

    def components(self) -> dict[str, Any]:
        """The values whose digest is the version; empty while it is unfinished."""
        return (self.manifest() or {}).get("components") or {}

    def manifest(self) -> dict[str, Any] | None:
        """The manifest, or None while the artifact is unfinished."""
        manifest = self.store.read_json(f"{self.path}/{MANIFEST}")
        return None if manifest is None else dict(manifest)

    def is_own(self) -> bool:
        """Whether its manifest, if there is one, names its step and version: a copied folder's does
        not.
        """
        manifest = self.manifest()
        names = {"step": self.step, "version": self.version}
        return manifest is None or manifest | names == manifest

    def place(self, index: int) -> dict[str, Any]:
        """The content of a part's file under `keys/`."""
        return {"step": self.step, "version": self.version, "index": index}

    def plan(self) -> list[dict[str, Any]] | None:
        """The part plan, or None before there is one."""
        parts = self.store.read_json(f"{self.path}/{PLAN}")
        return None if parts is None else list(parts)

    def builds_on(self) -> set[str]:
        """Earlier versions of its step whose rows its plan reuses."""
        return {version for part in self.plan() or () for version in part.get("known", ())}

    def adopt_plan(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Writes the plan unless another run has; returns the valid one."""
        if self.store.create_json(f"{self.path}/{PLAN}", parts):
            return parts
        standing = self.plan()
        return parts if standing is None else standing

    def record(self, index: int) -> Record | None:
        """The part's record, or None while the part does not exist."""
        record = self.store.read_json(self.record_path(index))
        return None if record is None else dict(record)

    def records(self) -> dict[int, Record]:
        """All records so far by index, in order."""
        records = self.store.read_json(f"{self.path}/{ALL_RECORDS}")
        if records is None:
            paths = [f"{self.path}/_parts/{n}" for n in self.store.list(f"{self.path}/_parts")]
            records = filter(None, self.store.each(self.store.read_json, paths))
        by_index = {record["index"]: dict(record) for record in records}
        return dict(sorted(by_index.items()))

    def whole_parts(self) -> list[int]:
        """The parts whose files exist, with table files of the recorded size."""
        return [one["index"] for one in whole(self.store, list(self.records().values()))]

    def intact(self) -> bool:
        """Whether every record that its manifest counts exists, and every file that they name."""
        records, manifest = self.records(), self.manifest()
        counted = len(records) if manifest is None else manifest["parts"]
        return (
            not self.damaged_records()
            and counted == len(records)
            and len(records) == len(whole(self.store, list(records.values())))
        )

    def damaged_records(self) -> list[str]:
        """The paths of its records that turned out damaged when they were read."""
        return sorted(path for path in self.store.damaged if path.startswith(f"{self.path}/"))

    def repair(self, anew: bool = False) -> None:
        """Makes it unfinished and removes its damaged parts, so that the next run makes only these.

        anew: removes all parts and the plan.
        """
        plan = self.plan()
        # Parts mean nothing without the plan, and a plan cannot be carried out without the versions
        # that it builds on.
        usable = not anew and all(
            Artifact(self.store, self.step, one).manifest() for one in self.builds_on()
        )
        records = self.records()
        valid = sound(self.store, list(records.values())) if plan is not None and usable else []
        lost = {self.record_path(index) for index in set(records) - {one["index"] for one in valid}}
        self.store.put_schemas.clear()
        self.store.delete(f"{self.path}/{MANIFEST}")
        self.store.delete(f"{self.path}/{ALL_RECORDS}")
        self.store.each(self.store.delete, lost | set(self.damaged_records()))
        if not usable:
            self.store.delete(f"{self.path}/{PLAN}")

    def clear_scratch(self) -> None:
        """Removes the working directory, which a kill late in `finish` leaves behind."""
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
            key: Digest of what the part's rows depend on; `find_parts` finds the part by it.
            info: Kept in the record; its `source` (input digests) is moved to the top level.

        Returns:
            The valid record, which is another process's if that was first; this part's files are
            then removed.
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
            # The bucket may have stored the record although the put failed. Leave the note;
            # `finish` cleans up.
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
            # A process killed between writing the record and the key leaves no key.
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

        known_schemas: tables to add, without rows, if no part has them.
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

        Raises Damaged if their content differs from the record.
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
        """The path of the part's record."""
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
        """The path of each of the part's files, under a name unique to this attempt."""
        unique = f"{index:05d}-{uuid.uuid4().hex[:12]}"
        places = {
            file.path: f"{self.path}/data/{table}/{unique}-{number:03d}.parquet"
            for table, files in part.files.items()
            for number, file in enumerate(files)
        }
        if part.directory is not None:
            for source in sorted(filter(Path.is_file, part.directory.rglob("*"))):
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
        """Removes uploads of killed attempts: every part has its record, so none will name them."""
        named = {path for record in records.values() for path in paths_of(record)}
        for note in self.scratch().glob(f"{_UPLOADING}*"):
            with suppress(ValueError):
                for path in {*json.loads(note.read_bytes())} - named:
                    self.store.delete(path)
                    # The temporary name of an unfinished put in a local directory.
                    self.store.delete(f"{path}#1")

    def _remember(self, record: Record) -> None:
        place = json_bytes(self.place(record["index"]))
        self.store.replace(key_path(self.step, record["key"]), place)


def open_artifact(store: Store, step: str, version: str) -> Artifact:
    """The artifact of this step and version, whether or not any of it exists."""
    return Artifact(store, step, version)


def artifacts_of(store: Store, step: str) -> list[Artifact]:
    """Every artifact of the step, finished or not; copies of an artifact's folder are left out."""
    return _owned(store, [(step, version) for version in store.list(f"artifacts/{step}")])


def all_artifacts(store: Store) -> list[Artifact]:
    """Every artifact in the store, finished or not."""
    steps = store.list("artifacts")
    versions = store.each(lambda step: store.list(f"artifacts/{step}"), steps)
    pairs = zip(steps, versions, strict=True)
    return _owned(store, [(step, version) for step, of_step in pairs for version in of_step])


def _owned(store: Store, names: Sequence[tuple[str, str]]) -> list[Artifact]:
    artifacts = [Artifact(store, step, version) for step, version in names]
    return list(compress(artifacts, store.each(Artifact.is_own, artifacts)))


def find_parts(store: Store, step_kind: str, keys: Collection[str]) -> dict[str, Record]:
    """The records of parts with these keys whose files are undamaged, by key.

    step_kind: the stage's name; a step's name (`synthesise.negation`) means its stage.
    """
    folder = _keys(step_kind)
    noted = {f"{key}.json": key for key in keys}
    records: dict[str, dict[int, Record]] = {}
    matching = []
    names = list(noted.keys() & set(store.list(folder) if noted else ()))
    places = store.each(lambda name: store.read_json(f"{folder}/{name}"), names)
    for name, place in zip(names, places, strict=True):
        if place is None:
            continue
        artifact = Artifact(store, place["step"], place["version"])
        if artifact.path not in records:
            records[artifact.path] = artifact.records()
        record = records[artifact.path].get(place["index"])
        if record is not None and record["key"] == noted[name]:
            matching.append(record)
    return {record["key"]: record for record in sound(store, matching)}


def key_path(step: str, key: str) -> str:
    """The path of the file that says in which artifact the part with this key was committed."""
    return f"{_keys(step)}/{key}.json"


def _keys(step: str) -> str:
    return f"keys/{step.partition('.')[0]}"


# Temporary files with a process id in their name: a probe, DuckDB's spill, an index.
_OF_A_PROCESS = re.compile(r"(?:\.probe|sql|bm25)-(\d+)(?:-[0-9a-f]+)?")
# The id may be that of a living process of another container or machine.
_UNTOUCHED_SECONDS = 3_600.0


def sweep_leftovers(store: Store) -> None:
    """Removes a dead process's locks, and its temporary files once they are an hour old.

    Lists only three short folders of the work directory; `garbage` finds the rest.
    """
    locks.sweep(store)
    for folder in (store.work, store.work / "scratch"):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                match = _OF_A_PROCESS.fullmatch(path.name)
                if match and not locks.alive(int(match[1])):
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
"""Table `warnings`. Findings that are no errors, in the newest run or that of `--run`, in the
order of its steps. Each is looked for once, while its artifact is made, and is then listed by
`run`, `plan`, `show`, report and cards. Artifacts of older versions have none. Keys of the recipe
without effect come first.

Columns:
    step: the step whose rows show it; `recipe` for a key of the recipe
    stage: its stage, or `recipe`
    version: → `artifacts.version`; NULL for a key of the recipe
    key: the corpus, split, method, part, phase, set or figure that it is about; NULL: the whole
        step
    kind: one of the [kinds](sql.md#kinds-of-warnings)
    count: number of rows of this kind
    total: number of rows looked at
    message: the finding
    example: one such row's text or fault; NULL where none helps
    remedy: what to do
"""


def warnings_of(manifest: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The warnings of the artifact with this manifest; none of an unfinished one."""
    if manifest is None:
        return []
    return [{"version": manifest["version"], **one} for one in manifest.get("warnings", ())]
