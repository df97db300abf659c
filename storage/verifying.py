"""`tercet verify`: compares a store's files with its records, and discards damaged ones."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage import locks, runs
from tercet.storage.answers import POOL, sealed_names
from tercet.storage.artifacts import Artifact, all_artifacts
from tercet.storage.objects import Folder, first_line
from tercet.storage.part_writer import put_schema, schema_path
from tercet.storage.records import Record, faults, paths_of
from tercet.storage.store import Store, StoreError, clear_errors

_RECORDS = ("artifacts/", "keys/", "rounds/", "runs/", "tags/")


@dataclass(frozen=True)
class Comparison:
    """The damaged parts of a store.

    artifacts: each damaged artifact's faults, by path (`faults_of`). others: faults of other
    records (runs, tags …), by path. answers: faults of files of language models' answers, by path.
    files, bytes: how much was compared.
    """

    artifacts: Mapping[Artifact, Mapping[str, str]]
    others: Mapping[str, str]
    answers: Mapping[str, str]
    files: int
    bytes: int


def faults_of(artifact: Artifact, tables: bool = True, aside: Path | None = None) -> dict[str, str]:
    """The faults of an artifact, by path: missing or damaged records, and files that are missing or
    differ from their record.

    tables, aside: as in `records.faults`.
    """
    records = list(artifact.records().values())
    return _of_records(artifact, records) | faults(artifact.store, records, tables, aside)


def _of_records(artifact: Artifact, records: Collection[Record]) -> dict[str, str]:
    manifest, _ = artifact.manifest(), artifact.plan()
    recorded = {record["index"] for record in records}
    lost = set() if manifest is None else set(range(manifest["parts"])) - recorded
    missing = {artifact.record_path(index): "is missing" for index in sorted(lost)}
    return missing | dict.fromkeys(artifact.damaged_records(), "is damaged")


def compare(store: Store) -> Comparison:
    """Compares the whole store; each object of a remote store is fetched once.

    Raises StoreError like the store.
    """
    stats = store.stats("")
    texts = [
        path
        for path in stats
        # JSON files of models are compared by their digests below.
        if path.startswith(_RECORDS) and path.endswith(".json") and "/files/" not in path
    ]
    # Damaged records are collected in `store.damaged`.
    store.each(store.read_json, texts)
    artifacts = all_artifacts(store)
    records = store.each(lambda one: list(one.records().values()), artifacts)
    every = [record for of_artifact in records for record in of_artifact]
    with _aside(store) as folder:
        files = faults(store, every, aside=folder)
        answers = _damaged_answers(store, folder)
    faults_by_artifact = {}
    for artifact, of_artifact in zip(artifacts, records, strict=True):
        paths = {path for record in of_artifact for path in paths_of(record)}
        wrong = {path: files[path] for path in sorted(files.keys() & paths)}
        if wrong := _of_records(artifact, of_artifact) | wrong:
            faults_by_artifact[artifact] = wrong
    others = sorted(path for path in store.damaged if not path.startswith("artifacts/"))
    compared = {path for record in every for path in paths_of(record)} & stats.keys()
    return Comparison(
        faults_by_artifact,
        dict.fromkeys(others, "is damaged"),
        answers,
        len(compared),
        sum(stats[path].bytes for path in compared),
    )


@contextmanager
def _aside(store: Store) -> Iterator[Path | None]:
    """A temporary folder for fetched objects; None for a local store, which needs none."""
    if isinstance(store.objects, Folder):
        yield None
        return
    scratch = store.work / "scratch"
    scratch.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=scratch) as folder:
        yield Path(folder)


def _damaged_answers(store: Store, aside: Path | None) -> dict[str, str]:
    """Files of answers that cannot be read; only their pages have checksums."""
    faults_by_path = {}
    for path in (f"{POOL}/{name}.parquet" for name in sealed_names(store)):
        with clear_errors(store.location):
            place = store.objects.local(path, aside or store.work)
        try:
            with pq.ParquetFile(place, page_checksum_verification=True) as file:
                for _ in file.iter_batches():
                    pass
        except (OSError, pa.ArrowException) as error:
            faults_by_path[path] = f"cannot be read ({first_line(error)})"
        if aside is not None:
            (aside / path).unlink(missing_ok=True)
    return faults_by_path


def discard(
    store: Store,
    comparison: Comparison,
    schemas: Iterable[pa.Schema],
    waiting: Callable[[str], None] = lambda holder: None,
) -> dict[str, str]:
    """Discards damaged files and records, so that the next run makes them again.

    Not discarded: artifacts that a running run uses, the record of a tagged run, and answers, which
    cannot be made again. A run whose end cannot be read then counts as crashed; one whose start
    cannot be read is removed, while its artifacts stay.

    schemas: schemas whose files can be written again. waiting: as in `locks.hold`.
    Returns what stays, with the reason.
    """
    writable = {schema_path(schema): schema for schema in schemas}
    stays: dict[str, str] = {}
    with locks.hold(store, runs.COLLECTION, waiting, "tercet verify --mend"):
        busy = {
            name: run["run_id"]
            for run in runs.list_runs(store)
            if run["state"] == "running"
            for name in runs.used(store, run)
        }
    store.put_schemas.clear()
    for artifact in comparison.artifacts:
        if artifact.name in busy:
            stays[artifact.name] = f"run {busy[artifact.name]}, which is going on, uses it"
            continue
        name = f"artifact-{artifact.step}-{artifact.version}"
        with locks.hold(store, name, waiting, "tercet verify --mend"), _aside(store) as folder:
            # A run may have repaired it meanwhile.
            wrong = faults_of(artifact, aside=folder)
            for path in wrong.keys() & writable.keys():
                put_schema(store, writable[path])
            if lost := wrong.keys() - writable.keys():
                store.each(store.delete, lost)
                artifact.repair()
    for path in comparison.others:
        if path.startswith("runs/") and path.endswith("/start.json"):
            try:
                runs.remove_run(store, path.split("/")[1], waiting)
            except StoreError as error:
                stays[path] = str(error)
        else:
            store.delete(path)
    return stays
