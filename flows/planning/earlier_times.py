"""Estimates the time of a step from its earlier times in this store."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.running import parts
from tercet.storage.artifacts import Artifact, artifacts_of, open_artifact
from tercet.storage.store import Store


def seconds(
    store: Store, step: Step, components: Mapping[str, Any], rows: int | None
) -> float | None:
    """Seconds for this many rows, from the largest artifact made in one go; None without one.

    rows: None: not known yet; the step is taken to read as many as its newest artifact did.

    Only artifacts of the same kind of work count: the time of a training does not apply to another
    configuration, nor the time of a corpus to another corpus.
    """
    best: tuple[int, float] | None = None
    newest: tuple[str, int] | None = None
    # Trainings of several seeds take equally long.
    folder = step.name.partition(".seed")[0]
    for artifact in artifacts_of(store, folder):
        manifest = artifact.manifest()
        if manifest is None or not _in_one_go(artifact, manifest):
            continue
        if not _alike(step, components, manifest["components"]):
            continue
        read = rows_read(store, step, manifest["components"]["inputs"])
        if not step.inputs:
            read = rows = 1
        if read and (best is None or read > best[0]):
            best = read, float(manifest["seconds"])
        if read:
            newest = max(newest or ("", 0), (str(manifest["created"]), read))
    if best is None or newest is None:
        return None
    return best[1] * (newest[1] if rows is None else rows) / best[0]


def rows_read(store: Store, step: Step, versions: Mapping[str, Any]) -> int | None:
    """The rows of the table that the step maps or, failing that, of all its input tables.

    versions: slot to the versions of the steps that it reads; None for one not made yet.
    """
    if not step.inputs:
        return None
    total = 0
    for slot, names in step.inputs.items():
        found = versions.get(slot, ())
        if len(found) != len(names):
            return None
        mapped = 0
        for name, version in zip(names, found, strict=True):
            manifest = None if version is None else open_artifact(store, name, version).manifest()
            if manifest is None:
                return None
            tables = manifest["tables"]
            read = [slot] if slot in tables else [n for n in tables if n != parts.UNREAD]
            mapped += sum(int(tables[n]["rows"]) for n in read)
        if step.stage.each == slot:
            return mapped
        total += mapped
    return total


def _alike(step: Step, now: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    if step.stage.model and _but_seed(now["config"]) != _but_seed(then["config"]):
        return False
    return bool(step.inputs) or now["externals"] == then["externals"]


def _but_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "model_seed"}


def _in_one_go(artifact: Artifact, manifest: Mapping[str, Any]) -> bool:
    """Whether its seconds cover all its parts: none was reused or made in an earlier run."""
    began = datetime.fromisoformat(manifest["created"]) - timedelta(
        seconds=float(manifest.get("seconds") or 0) + 1
    )
    for record in artifact.records().values():
        files = [file["path"] for entries in record["tables"].values() for file in entries]
        files += [file["path"] for file in record["files"]]
        if any(not path.startswith(f"{artifact.path}/") for path in files):
            return False
        if datetime.fromisoformat(record["created"]) < began:
            return False
    return "seconds" in manifest
