"""Makes one step's artifact: its inputs and models, its plan, its parts."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step
from tercet.flows.running import parts
from tercet.flows.running.bucket_checkpoints import kept_in_bucket
from tercet.flows.running.executors import Executor, Threads
from tercet.flows.running.gpus import device
from tercet.flows.running.llm_session import LlmSession
from tercet.flows.running.one_part import STAGING, PartOrder, model_folder
from tercet.flows.running.other_machines import libraries
from tercet.flows.running.parts import PartFile
from tercet.flows.running.run_plan import RunPlan
from tercet.storage import fingerprint, locks, runs
from tercet.storage.artifacts import Artifact, artifacts_of, find_parts, open_artifact
from tercet.storage.rows import joined
from tercet.storage.store import Store
from tercet.storage.verifying import faults_of
from tercet.tasks.findings.finding import Finding, Look, look_for
from tercet.tasks.findings.registry import KEPT, findings_after, findings_before
from tercet.tasks.findings.warning import StageWarning, sentence
from tercet.tasks.stage import BadInput, EachPart, OnePart, Planned, Resources, Work, silent

Progress = Callable[[int, int | None, str], None]
Say = Callable[[str], None]


@dataclass
class RunHandle:
    """A run in progress.

    llm: set if some step asks a language model. end_info: contents of the record of its end.
        compared: the steps whose files are known to match their records.
    whole: manifests of artifacts that were finished and whole in a bucket after this run had noted
        that it uses them.
    """

    plan: RunPlan
    store: Store
    run_id: str
    fingerprints: dict[str, Fingerprint]
    say: Say
    executor: Executor
    llm: LlmSession | None = None
    end_info: dict[str, Any] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    whole: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def collecting(say: Say) -> Say:
    """Says who holds the lock `COLLECTION`, where a run waits for it."""
    return lambda holder: say(f"waits for {holder}, which deletes what is not used any more")


def artifact_of(handle: RunHandle, step: str) -> Artifact:
    """The artifact of a step of this run."""
    version = handle.fingerprints[step].version
    assert version is not None
    return open_artifact(handle.store, step, version)


def order_of(handle: RunHandle, step: Step) -> PartOrder:
    """The order shared by the parts of a step, once its inputs are made."""
    return _order(handle, step, handle.fingerprints[step.name], [], silent)


def make_artifact(
    handle: RunHandle, step: Step, prints: Fingerprint, artifact: Artifact, progress: Progress
) -> dict[str, Any]:
    began = time.monotonic()
    standing, wait = artifact.plan(), collecting(handle.say)
    if step.is_kept:
        return _keep(handle, step, prints, artifact, began)
    # Artifacts that are found are noted as used before a collection may delete them.
    with locks.hold(handle.store, runs.COLLECTION, wait):
        recalled = _recalled(handle, step, prints, standing) or _continued(handle, step, prints)
        runs.use(handle.store, handle.run_id, [f"{one.step}@{one.version}" for one in recalled])
    order = _order(handle, step, prints, recalled, progress)
    warnings = _tell(handle, step, order.models, findings_before(step.config))
    sources = {entry["source"] for entry in standing or () if "source" in entry}
    if not sources <= order.driving.keys():
        # The step's inputs were made again, by a version of a library that writes other bytes.
        artifact.repair(anew=True)
        standing = None
    if standing is None:
        proposed = parts.specs(
            step, order.planned_specs(), order.inputs, [a.version for a in recalled]
        )
        standing = artifact.adopt_plan(proposed)
    records = artifact.records()
    missing = [index for index in range(len(standing)) if index not in records]
    done = len(standing) - len(missing)
    show = progress if len(standing) == 1 else _by_part(progress, done, len(standing))
    pending = [order.part(index, standing[index]) for index in missing]
    with locks.hold(handle.store, runs.COLLECTION, wait):
        reusable = find_parts(handle.store, step.name, {part.key for part in pending})
        for part in pending:
            if part.key in reusable:
                artifact.reference(part.index, reusable[part.key], part.info)
                show(1, 1, "parts")
    pending = [part for part in pending if part.key not in reusable]
    for left in artifact.scratch().glob(f"{STAGING}*"):
        # These files are a killed attempt's, since nobody else makes this artifact now.
        shutil.rmtree(left, ignore_errors=True)
    if step.stage.model or step.stage.asks is not None:
        # A training or a model server needs the memory of processes that wait.
        handle.executor.close()
    if step.stage.asks is not None and handle.llm is not None:
        handle.llm.begin()
        Threads(handle.llm.cancel).map(order, pending, progress)
    else:
        is_training = step.stage.model and pending
        with kept_in_bucket(artifact, handle.say) if is_training else nullcontext():
            handle.executor.map(order, pending, show)
    warnings += _tell(handle, step, order.models, findings_after(step.stage))
    if step.stage.asks is not None and handle.llm is not None:
        warnings += _told(handle, step, handle.llm.warnings())
    at_once = len(pending) == len(standing)
    return artifact.finish(_manifest(handle, step, prints, warnings, began, at_once))


def _keep(
    handle: RunHandle, step: Step, prints: Fingerprint, artifact: Artifact, began: float
) -> dict[str, Any]:
    """Refers to the rows of the kept version without copying them; returns the manifest."""
    source = open_artifact(handle.store, step.name, str(prints.kept))
    records, manifest = source.records(), source.manifest()
    assert manifest is not None
    spec = {"made": manifest["created"]}
    artifact.adopt_plan([{"spec": spec, "known": [source.version]}] * len(records))
    for index, record in records.items():
        artifact.reference(index, record, record["info"])
    warnings = _tell(handle, step, {}, KEPT[step.stage.name], spec)
    return artifact.finish(_manifest(handle, step, prints, warnings, began))


def _manifest(
    handle: RunHandle,
    step: Step,
    prints: Fingerprint,
    warnings: list[dict[str, Any]],
    began: float,
    at_once: bool = False,
) -> dict[str, Any]:
    """The record of a step whose parts are all made.

    began: by the monotonic clock. at_once: all parts were made since then, none reused.
    """
    return {
        "step": step.name,
        "stage": step.stage.name,
        "version": prints.version,
        "run": handle.run_id,
        "inputs": _lineage(prints.components),
        "components": dict(prints.components),
        "modules": dict(prints.modules),
        "libraries": libraries(),
        "seconds": round(time.monotonic() - began, 3),
        "at_once": at_once,
        "warnings": warnings,
    }


def _tell(
    handle: RunHandle,
    step: Step,
    models: Mapping[str, Path],
    findings: Sequence[Finding],
    spec: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Looks for warnings of the step, and says them. spec: of a version that is kept."""
    if not findings:
        return []
    artifact = artifact_of(handle, step.name)
    work = Work(
        config=step.config,
        seed=0,
        inputs={
            slot: joined([artifact_of(handle, name).rows() for name in names])
            for slot, names in step.inputs.items()
        },
        models=models,
        spec=spec or {},
        resources=Resources(memory_limit=handle.plan.recipe.run.memory_limit),
        scratch=artifact.scratch(),
        emit=lambda table, rows: None,
        stage=step.stage.name,
    )
    configs = [one.config for one in handle.plan.steps]
    return _told(handle, step, look_for(findings, Look(work, artifact.rows(), configs)))


def _told(handle: RunHandle, step: Step, warnings: Iterator[StageWarning]) -> list[dict[str, Any]]:
    """The warnings of a step as its manifest keeps them, said as they are found."""
    rows = []
    for warning in warnings:
        rows.append({"step": step.name, "stage": step.stage.name, **asdict(warning)})
        handle.say(sentence(rows[-1]))
    return rows


def _order(
    handle: RunHandle,
    step: Step,
    prints: Fingerprint,
    recalled: Sequence[Artifact],
    progress: Progress,
) -> PartOrder:
    """The order shared by the parts of this step, ready to run."""
    settings = handle.plan.recipe.run
    inputs = {
        slot: parts.input_files([artifact_of(handle, name) for name in names])
        for slot, names in step.inputs.items()
    }
    if recalled:
        inputs["known"] = parts.input_files(recalled)
    if prints.kept is not None:
        source = open_artifact(handle.store, step.name, prints.kept)
        inputs["kept"] = parts.input_files([source])
    versions = prints.components["models"]
    models = {
        slot: model_folder(handle.store, step, model, str(versions[slot]))
        for slot, model in step.models.items()
    }
    ask = None
    if step.stage.asks is not None and handle.llm is not None:
        ask = handle.llm.asking(step.config, prints.components, models)
    resources = Resources(
        device=device(settings.device),
        batch_size=settings.batch_size,
        part_rows=settings.part_rows,
        memory_limit=settings.memory_limit,
        progress=progress,
        ask=ask,
    )
    return part_order(
        handle.store, handle.plan, step, prints, inputs, models, resources, handle.run_id
    )


def _recalled(
    handle: RunHandle, step: Step, prints: Fingerprint, standing: Sequence[Mapping[str, Any]] | None
) -> list[Artifact]:
    """Complete earlier versions of the step that differ only in their inputs.

    An existing plan names the versions that it was made with: newer versions would change its
    parts.
    """
    if not (isinstance(step.stage.cut, Planned) and step.stage.cut.recalls):
        return []
    if standing is not None:
        versions = standing[0].get("known", []) if standing else []
        named = [open_artifact(handle.store, step.name, version) for version in versions]
        for artifact in named:
            if artifact.manifest() is None or faults_of(artifact):
                raise BadInput(
                    "damaged",
                    f"{step.name}@{artifact.version}, which {step.name}@{prints.version} builds "
                    f"on, was removed or is damaged: delete {handle.plan.store}/artifacts/"
                    f"{step.name}/{prints.version} and run again.",
                )
        return named
    matching, key = [], fingerprints.recalled_key(prints.components)
    for artifact in artifacts_of(handle.store, step.name):
        manifest = artifact.manifest()
        if manifest is None or artifact.version == prints.version:
            continue
        same = fingerprints.recalled_key(manifest["components"]) == key
        if same and not faults_of(artifact):
            matching.append(artifact)
    return matching


def _continued(handle: RunHandle, step: Step, prints: Fingerprint) -> list[Artifact]:
    """For a stage that continues: the version from the recipe's last run with the same config."""
    if not (isinstance(step.stage.cut, OnePart) and step.stage.cut.continues):
        return []
    for run in runs.list_runs(handle.store):
        versions = [one["version"] for one in run["steps"] if one["step"] == step.name]
        if run["recipe_name"] != handle.plan.recipe.name or prints.version in versions:
            continue
        for artifact in (open_artifact(handle.store, step.name, version) for version in versions):
            manifest = artifact.manifest()
            if manifest is None:
                continue
            same = _without_keep(manifest["components"]) == _without_keep(prints.components)
            if same and not faults_of(artifact):
                return [artifact]
    return []


def _without_keep(components: Mapping[str, Any]) -> Any:
    return fingerprints.without(components["config"], [fingerprints.KEEP])


def _by_part(progress: Progress, done: int, total: int) -> Progress:
    """Progress in parts: progress within a part counts as a fraction of it."""
    finished = done

    def show(current: int, of: int | None, unit: str) -> None:
        nonlocal finished
        if current == of and unit == "parts":
            finished += 1
        progress(finished, total, "parts")

    return show


def _lineage(components: Mapping[str, Any]) -> list[str]:
    """Versions of the artifacts that an artifact was made from."""
    read = {version for versions in components["inputs"].values() for version in versions}
    read |= {str(version) for version in components["models"].values()}
    keep = components["config"].get(fingerprints.KEEP)
    return sorted(read if keep is None else read | {keep})


def part_order(
    store: Store,
    plan: RunPlan,
    step: Step,
    prints: Fingerprint,
    inputs: Mapping[str, Sequence[PartFile]],
    models: Mapping[str, Path],
    resources: Resources,
    run: str = "",
) -> PartOrder:
    """The order of a step whose inputs are these files.

    inputs: files by slot; `known` and `kept` hold what the step reads of its earlier versions.
    models: directories of the models; none if parts are only planned.
    """
    stages = {other.name: other.stage for other in plan.steps}
    schemas = {
        slot: {table: schema for name in names for table, schema in stages[name].tables.items()}
        for slot, names in step.inputs.items()
    }
    for slot in {"known", "kept"} & inputs.keys():
        schemas[slot] = dict(step.stage.tables)
    return PartOrder(
        store=store,
        step=step,
        version=prints.version or "",
        seed=plan.recipe.seed,
        components=dict(prints.components),
        inputs={
            name: parts.slot(name, files, _recalled_key(store, step, prints, name))
            for name, files in inputs.items()
        },
        schemas=schemas,
        models=models,
        model_digests={slot: str(digest) for slot, digest in prints.components["models"].items()},
        resources=resources,
        run=run,
    )


def _recalled_key(store: Store, step: Step, prints: Fingerprint, slot: str) -> str | None:
    """The digest of what made the rows of a looked-up slot; None for other slots."""
    if not (isinstance(step.stage.cut, EachPart) and slot in step.stage.cut.looked_up):
        return None
    sources = zip(step.inputs[slot], prints.components["inputs"][slot], strict=True)
    manifests = [open_artifact(store, name, version).manifest() for name, version in sources]
    return fingerprint.digest(
        [fingerprints.recalled_key(one["components"]) for one in manifests if one is not None]
    )
