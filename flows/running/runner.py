"""Runs a pipeline's steps against the store: plain functions without Prefect."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.language_model import writer
from tercet.flows.pipeline.step import Model, Step, Tagged, Weights
from tercet.flows.pipeline.step import schemas as step_schemas
from tercet.flows.running import (
    failed_rows,
    few_rows,
    guarded_rows,
    guessed,
    lost_rows,
    odd_rows,
    parts,
    undecayed_rows,
)
from tercet.flows.running.asker import Asker
from tercet.flows.running.device import device
from tercet.flows.running.one_part import STAGING, PartOrder, part_order
from tercet.flows.running.processes import commit_asking_parts, commit_parts
from tercet.flows.running.run_plan import RunPlan, check_models
from tercet.models.llm.messages import Ask
from tercet.storage import locks, runs
from tercet.storage.artifacts import Artifact, artifacts_of, find_parts, open_artifact
from tercet.storage.catalog import views as catalog
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput, Resources, silent

Progress = Callable[[int, int | None, str], None]
Say = Callable[[str], None]

# Each manifest records their versions, to help explain why two results differ.
NOTED_LIBRARIES = ("tercet", "torch", "transformers", "sentence-transformers", "duckdb", "pyarrow")


@dataclass
class RunHandle:
    """A run in progress. `asker`: set if some step asks a language model."""

    plan: RunPlan
    store: Store
    run_id: str
    fingerprints: dict[str, Fingerprint]
    say: Say
    asker: Asker | None = None


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step. state: reused, resumed or made; tables: rows by table."""

    step: str
    version: str
    state: str
    seconds: float
    tables: Mapping[str, int]


@contextmanager
def open_run(plan: RunPlan, say: Say = lambda text: None) -> Iterator[RunHandle]:
    """A run in the store: its start is recorded on entry, its end on exit.

    The run's lock is held in between. The system releases it if the process is killed, so a run
    without an end whose lock is free has crashed.
    """
    store = open_store(plan.store)
    prints = _fingerprints(plan, store, say)
    # Models that had to be fetched can only be looked at now.
    check_models(plan.steps, plan.store)
    arguments = plan.arguments.parameters()
    # The store's path is left out so that its records stay true if it is moved.
    del arguments["store"]
    run_id = runs.start_run(
        store,
        plan.recipe.name,
        plan.recipe.model_dump(mode="json"),
        {
            "arguments": arguments,
            "pid": os.getpid(),
            "seed": plan.recipe.seed,
            "steps": [step.name for step in plan.steps],
            "tags": fingerprints.tagged(plan.steps, store),
        },
    )
    with locks.hold(store, f"run-{run_id}", say):
        try:
            with _asker(plan, store, run_id, say) as asker:
                yield RunHandle(plan, store, run_id, prints, say, asker)
        except KeyboardInterrupt:
            runs.end_run(store, run_id, "interrupted", {})
            raise
        except BaseException as error:
            runs.end_run(store, run_id, "failed", {"error": str(error)[:2000]})
            raise
        runs.end_run(store, run_id, "done", {})
    catalog.write_catalog(store, step_schemas(plan.steps))


def _fingerprints(plan: RunPlan, store: Store, say: Say) -> dict[str, Fingerprint]:
    """The steps' fingerprints, after starting new rounds for failed rows if the run asks for it."""
    prints = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)
    if not plan.arguments.retry_failed:
        return prints
    failed = failed_rows.ask_again(store, plan.steps, prints)
    for name, rows in failed.items():
        say(f"{name:<32} asks again about {rows:,} failed {'row' if rows == 1 else 'rows'}")
    if not failed:
        say("No rows have failed: there is nothing to ask again.")
        return prints
    return fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)


@contextmanager
def _asker(plan: RunPlan, store: Store, run_id: str, say: Say) -> Iterator[Asker | None]:
    """The asker, if the run has steps that ask a language model."""
    if all(step.stage.asks is None for step in plan.steps):
        yield None
        return
    asker = Asker(store, plan.recipe, run_id, say)
    try:
        yield asker
    finally:
        asker.close()


def run_step(handle: RunHandle, step: Step, progress: Progress) -> StepResult:
    """Makes the step's artifact, or the missing parts of it, and records it in the run.

    A complete artifact is reused. If two runs want the same artifact, the second prints that it
    waits, and then reuses the first one's.
    """
    began = time.monotonic()
    own = handle.fingerprints[step.name]
    assert own.version is not None
    artifact = open_artifact(handle.store, step.name, own.version)
    manifest = artifact.manifest()
    state = "reused"
    if manifest is not None and artifact.intact():
        artifact.clear_scratch()
    else:
        name = f"artifact-{step.name}-{own.version}"
        with locks.hold(handle.store, name, _waiting(handle, step), f"run {handle.run_id}"):
            manifest = artifact.manifest()
            if not artifact.intact():
                handle.say(f"{step.name:<32} lacks some of its files: making those parts again")
                artifact.repair()
                manifest = None
            if manifest is None:
                state = "resumed" if artifact.records() else "made"
                few = few_rows.warning(step, lambda made: artifact_of(handle, made))
                if few is not None:
                    handle.say(few)
                for line in undecayed_rows.warnings(step, lambda made: artifact_of(handle, made)):
                    handle.say(line)
                manifest = _make(handle, step, own, artifact, progress)
    for line in (*guessed.lines(step), *lost_rows.warnings(step, artifact)):
        handle.say(line)
    left = guarded_rows.warning(step, artifact)
    if left is not None:
        handle.say(left)
    for odd in odd_rows.odd_rows(
        step,
        handle.plan.steps,
        lambda made: artifact_of(handle, made),
        handle.plan.recipe.run.memory_limit,
    ):
        handle.say(odd_rows.sentence(odd))
    if handle.asker is not None and not _asked_next(handle.plan, step):
        handle.asker.release()
    result = StepResult(
        step.name,
        own.version,
        state,
        round(time.monotonic() - began, 3),
        {name: int(entry["rows"]) for name, entry in manifest["tables"].items()},
    )
    runs.record_step(
        handle.store,
        handle.run_id,
        step.name,
        {
            "step": step.name,
            "stage": step.stage.name,
            "version": result.version,
            "state": result.state,
            "seconds": result.seconds,
            "tables": dict(result.tables),
        },
    )
    if state != "reused":
        catalog.write_catalog(handle.store, step_schemas(handle.plan.steps))
    return result


def _asked_next(plan: RunPlan, step: Step) -> bool:
    """Whether the model that this step asks answers again before another one or a training."""
    names = [other.name for other in plan.steps]
    for other in plan.steps[names.index(step.name) + 1 :]:
        if other.stage.asks is not None:
            return writer(step) in (None, writer(other))
        if other.stage.model:
            break
    return False


def _waiting(handle: RunHandle, step: Step) -> Say:
    """Prints who is making the step's artifact."""
    return lambda holder: handle.say(f"{step.name:<32} waits for {holder}, which is making it")


def artifact_of(handle: RunHandle, step: str) -> Artifact:
    """The artifact of a step of this run."""
    version = handle.fingerprints[step].version
    assert version is not None
    return open_artifact(handle.store, step, version)


def order_of(handle: RunHandle, step: Step) -> PartOrder:
    """The order shared by the parts of a step, once its inputs are made."""
    return _order(handle, step, handle.fingerprints[step.name], [], silent)


def _make(
    handle: RunHandle, step: Step, own: Fingerprint, artifact: Artifact, progress: Progress
) -> dict[str, Any]:
    began = time.monotonic()
    standing = artifact.plan()
    recalled = _recalled(handle, step, own, standing)
    order = _order(handle, step, own, recalled, progress)
    if standing is None:
        planned = None if step.stage.plan is None else order.planned_specs()
        proposed = parts.specs(step, planned, order.inputs, [a.version for a in recalled])
        standing = artifact.adopt_plan(proposed)
    records = artifact.records()
    missing = [index for index in range(len(standing)) if index not in records]
    done = len(standing) - len(missing)
    show = progress if len(standing) == 1 else _by_part(progress, done, len(standing))
    pending = [order.part(index, standing[index]) for index in missing]
    known = find_parts(handle.store, step.name, {part.key for part in pending})
    for part in pending:
        if part.key in known:
            artifact.reference(part.index, known[part.key], part.info)
            show(1, 1, "parts")
    pending = [part for part in pending if part.key not in known]
    for left in artifact.scratch().glob(f"{STAGING}*"):
        # A killed attempt's: nobody else makes this artifact now.
        shutil.rmtree(left, ignore_errors=True)
    if step.stage.asks is not None and handle.asker is not None:
        handle.asker.begin()
        commit_asking_parts(order, pending, handle.asker.cancel)
    else:
        commit_parts(order, pending, handle.plan.recipe.run.workers, show)
    return artifact.finish(
        {
            "step": step.name,
            "stage": step.stage.name,
            "version": own.version,
            "run": handle.run_id,
            "inputs": _lineage(own.components),
            "components": dict(own.components),
            "modules": dict(own.modules),
            "libraries": _libraries(),
            "seconds": round(time.monotonic() - began, 3),
        }
    )


def _order(
    handle: RunHandle,
    step: Step,
    own: Fingerprint,
    recalled: Sequence[Artifact],
    progress: Progress,
) -> PartOrder:
    """The order shared by the parts of this step, ready to run."""
    settings = handle.plan.recipe.run
    inputs = {
        slot: parts.input_files(handle.store, [artifact_of(handle, name) for name in names])
        for slot, names in step.inputs.items()
    }
    if recalled:
        inputs["known"] = parts.input_files(handle.store, recalled)
    versions = own.components["models"]
    models = {
        slot: _model_folder(handle, step, model, str(versions[slot]))
        for slot, model in step.models.items()
    }
    resources = Resources(
        device=device(settings.device),
        batch_size=settings.batch_size,
        part_rows=settings.part_rows,
        memory_limit=settings.memory_limit,
        progress=progress,
        ask=_ask(handle, step, own, models),
    )
    return part_order(handle.store, handle.plan, step, own, inputs, models, resources)


def _model_folder(handle: RunHandle, step: Step, model: Model, version: str) -> Path:
    """Where a model that the step reads lies."""
    if isinstance(model, Weights):
        return fingerprints.model_path(model.name)
    if isinstance(model, Tagged):
        # What the tag named when the run began: it may have moved since.
        folder, name = fingerprints.made_model(handle.store, version), f"tag:{model.name}"
    else:
        folder, name = artifact_of(handle, model.step).model_dir(), model.step
    if folder is None:
        raise BadInput(f"{name} did not leave a model for {step.name!r}.")
    return folder


def _ask(handle: RunHandle, step: Step, own: Fingerprint, models: Mapping[str, Path]) -> Ask | None:
    if step.stage.asks is None:
        return None
    assert handle.asker is not None
    return handle.asker.asking(step.config, own.components, models)


def _recalled(
    handle: RunHandle, step: Step, own: Fingerprint, standing: Sequence[Mapping[str, Any]] | None
) -> list[Artifact]:
    """Complete earlier versions of the step that differ only in their inputs.

    An existing plan names the versions that it was made with: newer ones would change its parts.
    """
    if not step.stage.recalls:
        return []
    if standing is not None:
        versions = standing[0].get("known", []) if standing else []
        known = [open_artifact(handle.store, step.name, version) for version in versions]
        for artifact in known:
            if artifact.manifest() is None or not artifact.intact():
                raise BadInput(
                    f"{step.name}@{artifact.version}, which {step.name}@{own.version} builds "
                    f"on, was removed: delete {handle.plan.store}/artifacts/{step.name}/"
                    f"{own.version} and run again."
                )
        return known
    fixed = ("stage", "config", "models", "externals", "code", "libraries")
    found = []
    for artifact in artifacts_of(handle.store, step.name):
        manifest = artifact.manifest()
        if manifest is not None and artifact.version != own.version:
            components = manifest["components"]
            if all(components.get(k) == own.components.get(k) for k in fixed):
                found.append(artifact)
    return found


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
    return sorted(read | {str(version) for version in components["models"].values()})


def _libraries() -> dict[str, str]:
    versions = {}
    for name in NOTED_LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
