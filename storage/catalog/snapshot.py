"""A snapshot of the store, read from manifests, records, runs and tags."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import json as arrow_json

from tercet.storage import runs as run_files
from tercet.storage.answers import RESPONSES, USAGE
from tercet.storage.artifacts import WARNINGS, Artifact, all_artifacts, warnings_of
from tercet.storage.records import Record, totals
from tercet.storage.store import Store

_TIME = pa.timestamp("us")

ARTIFACTS = pa.schema(
    [
        ("step", pa.string()),
        ("stage", pa.string()),
        ("version", pa.string()),
        ("created", _TIME),
        ("tables", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("state", pa.string()),
    ]
)
"""Table `artifacts`.

Columns:
    step: the step: a stage, or `synthesise.METHOD`, `evaluate.base`, `evaluate.encoder`
    stage: the stage
    version: digest of everything that determines the result; also the directory's name
    created: when it was finished; if unfinished, when its last part was
    tables: its tables
    rows: rows in all of them
    bytes: bytes on disk, model files included
    state: `done` or `partial`
"""
LINEAGE = pa.schema([("child", pa.string()), ("parent", pa.string())])
"""Table `lineage`.

Columns:
    child: → `artifacts.version`
    parent: → `artifacts.version` of what it read; for weights from outside the store their
        digest, which no artifact has
"""
RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("recipe", pa.string()),
        ("started", _TIME),
        ("ended", _TIME),
        ("state", pa.string()),
        ("verdict", pa.string()),
        ("verdict_figure", pa.string()),
        ("verdict_gain", pa.float64()),
        ("verdict_low", pa.float64()),
        ("verdict_high", pa.float64()),
    ]
)
"""Table `runs`.

Columns:
    run_id: time of the start (UTC) and four digits; sorts by time
    recipe: the recipe's name
    started: when it began
    ended: when it ended; NULL while it runs, and if it was killed
    state: `running`, `done`, `failed`, `interrupted` (Ctrl-C) or `crashed` (killed)
    verdict: on the trained encoder: `better`, `worse`, `no difference shown` or `not known`; NULL
        where none was measured
    verdict_figure: the figure that decides
    verdict_gain: its gain over the untouched encoder, in points
    verdict_low: lower end of the gain's 95 % interval
    verdict_high: upper end
"""
RUN_STEPS = pa.schema(
    [
        ("run_id", pa.string()),
        ("step", pa.string()),
        ("version", pa.string()),
        ("state", pa.string()),
        ("seconds", pa.float64()),
    ]
)
"""Table `run_steps`.

Columns:
    run_id: → `runs.run_id`
    step: → `artifacts.step`
    version: → `artifacts.version`
    state: `made`, `resumed` (some of its parts existed already) or `reused`
    seconds: time that the run spent on the step
"""
TAGS = pa.schema([("tag", pa.string()), ("target", pa.string())])
"""Table `tags`.

Columns:
    tag: the name
    target: a run's id, or `step@version`
"""
METADATA = {
    "artifacts": ARTIFACTS,
    "lineage": LINEAGE,
    "runs": RUNS,
    "run_steps": RUN_STEPS,
    "tags": TAGS,
    "warnings": WARNINGS,
    # Views of the pool of answers, which the catalog creates itself.
    "responses": RESPONSES,
    "usage": USAGE,
}


@dataclass(frozen=True)
class Entry:
    """An artifact with its records, in order; the manifest is None while it is unfinished."""

    artifact: Artifact
    manifest: Mapping[str, Any] | None
    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        """`step@version`."""
        return self.artifact.name

    @property
    def stage(self) -> str:
        """The stage that makes the artifact."""
        stage = (self.manifest or {}).get("stage")
        return str(stage) if stage else self.artifact.step.partition(".")[0]

    @cached_property
    def totals(self) -> dict[str, dict[str, int]]:
        """Rows, files and bytes of each of its tables."""
        return totals(self.records)

    @cached_property
    def files(self) -> dict[str, dict[str, list[str]]]:
        """Each table's data files, by the schema's file."""
        by_schema: dict[str, dict[str, list[str]]] = {}
        for record in self.records:
            for table, schema in record["schemas"].items():
                files = by_schema.setdefault(table, {}).setdefault(schema, [])
                files += [file["path"] for file in record["tables"].get(table, ())]
        return by_schema

    @cached_property
    def created(self) -> str:
        """When it was finished; if unfinished, when it got its last part (ISO 8601, UTC)."""
        if self.manifest is not None:
            return str(self.manifest["created"])
        return max((str(record["created"]) for record in self.records), default="")

    @property
    def parents(self) -> list[str]:
        """Versions of its inputs: every string in the manifest's `inputs`, without `step@`."""
        inputs = _texts((self.manifest or {}).get("inputs"))
        return sorted({text.rpartition("@")[2] for text in inputs})


@dataclass(frozen=True)
class Snapshot:
    """Artifacts, runs (newest first) and tags of a store."""

    store: Store
    entries: tuple[Entry, ...]
    runs: tuple[run_files.Run, ...]
    tags: Mapping[str, str]

    def of_run(self, run: run_files.Run) -> list[Entry]:
        """The finished artifacts that the run reached, in order."""
        by_name = {entry.name: entry for entry in self.entries}
        entries = (by_name.get(f"{step['step']}@{step.get('version')}") for step in run["steps"])
        return [entry for entry in entries if entry is not None and entry.manifest is not None]

    def unfinished(self) -> list[Entry]:
        """Each step's latest unfinished artifact, if nothing newer is finished."""
        latest: dict[str, Entry] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.created):
            if entry.records:
                latest[entry.artifact.step] = entry
        return [entry for entry in latest.values() if entry.manifest is None]

    def metadata(self, run: str | None = None) -> dict[str, pa.Table]:
        """The tables of artifacts, lineage, runs, tags, and the warnings of a run.

        run: whose warnings; by default the newest's that reached a step.
        """
        warnings: list[dict[str, Any]] = []
        for one in self.runs:
            if run in (None, one["run_id"]) and (reached := self.of_run(one)):
                # First warnings about the recipe, then warnings of the artifacts that the run has
                # made.
                warnings += one["info"].get("warnings", ())
                warnings += [row for entry in reached for row in warnings_of(entry.manifest)]
                break
        rows: dict[str, list[dict[str, Any]]] = {
            "artifacts": [_artifact_row(entry) for entry in self.entries if entry.totals],
            "lineage": [
                {"child": entry.artifact.version, "parent": parent}
                for entry in self.entries
                for parent in entry.parents
            ],
            "runs": [
                {
                    "run_id": run["run_id"],
                    "recipe": run["recipe_name"],
                    "started": _time(run["started"]),
                    "ended": _time(run["ended"]),
                    "state": run["state"],
                    **_verdict_columns(run),
                }
                for run in self.runs
            ],
            "run_steps": [
                {
                    "run_id": run["run_id"],
                    "step": step["step"],
                    "version": step.get("version"),
                    "state": step.get("state"),
                    "seconds": step.get("seconds"),
                }
                for run in self.runs
                for step in run["steps"]
            ],
            "tags": [{"tag": tag, "target": target} for tag, target in self.tags.items()],
            "warnings": warnings,
        }
        return {name: _table(rows[name], METADATA[name]) for name in rows}


def _verdict_columns(run: run_files.Run) -> dict[str, Any]:
    verdict = run["end_info"].get("verdict") or {}
    keys = ("figure", "gain", "low", "high")
    return {"verdict": verdict.get("word"), **{f"verdict_{key}": verdict.get(key) for key in keys}}


def read_snapshot(store: Store) -> Snapshot:
    """Reads the store: a few small files for each artifact and run, never data.

    Runs that reached an artifact whose records are damaged are left out, with a warning.
    """
    with store.as_listed():
        # Runs before artifacts, so that every artifact that a run lists is seen.
        runs = run_files.list_runs(store)
        entries = store.each(
            lambda one: Entry(one, one.manifest(), tuple(one.records().values())),
            all_artifacts(store),
        )
        damaged = {entry.name for entry in entries if entry.artifact.damaged_records()}
        whole = [run for run in runs if damaged.isdisjoint(run_files.reached(run))]
        return Snapshot(store, tuple(entries), tuple(whole), run_files.list_tags(store))


def files_by_schema(entries: Sequence[Entry], table: str) -> dict[str, list[str]]:
    """The table's files in these artifacts, grouped by schema file.

    If all are empty, the last schema without files; {} if no artifact has the table.
    """
    by_schema: dict[str, list[str]] = {}
    for entry in entries:
        for schema, files in entry.files.get(table, {}).items():
            by_schema.setdefault(schema, []).extend(files)
    filled = {schema: files for schema, files in by_schema.items() if files}
    return filled or dict(list(by_schema.items())[-1:])


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The rows as a table, through JSON since `pa.array` of a list imports pandas (0.3 s)."""
    lines = "\n".join(json.dumps(row, default=str) for row in rows).encode()
    if not lines:
        return pa.Table.from_batches([], schema)
    return arrow_json.read_json(
        pa.BufferReader(lines),
        arrow_json.ReadOptions(block_size=len(lines)),
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _artifact_row(entry: Entry) -> dict[str, Any]:
    models = sum(file["bytes"] for record in entry.records for file in record["files"])
    return {
        "step": entry.artifact.step,
        "stage": entry.stage,
        "version": entry.artifact.version,
        "created": _time(entry.created),
        "tables": sorted(entry.totals),
        "rows": sum(total["rows"] for total in entry.totals.values()),
        "bytes": sum(total["bytes"] for total in entry.totals.values()) + models,
        "state": "partial" if entry.manifest is None else "done",
    }


def _time(text: str | None) -> datetime | None:
    """A time in UTC without a zone, as in the catalog's tables."""
    return datetime.fromisoformat(text).replace(tzinfo=None) if text else None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list | tuple):
        return [text for member in value for text in _texts(member)]
    return []
