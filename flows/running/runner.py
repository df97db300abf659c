"""Runs a pipeline's steps against the store: plain functions, with nothing of Prefect."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step, Weights
from tercet.flows.pipeline.step import schemas as step_schemas
from tercet.flows.pipeline.step import until as steps_until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.flows.running import parts
from tercet.flows.running.asker import Asker
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.processes import commit_asking_parts, commit_parts
from tercet.models import weights
from tercet.models.llm.messages import Ask
from tercet.storage import locks, runs
from tercet.storage.artifacts import Artifact, find_part, open_artifact
from tercet.storage.catalog import views as catalog
from tercet.storage.store import Store, open_store
from tercet.tasks.corpus.ingest import IngestConfig, check_corpora
from tercet.tasks.stage import BadInput, Resources, silent

Progress = Callable[[int, int | None, str], None]
Say = Callable[[str], None]

# Their versions are told in each manifest, for whoever wonders why two results differ.
TOLD_LIBRARIES = ("tercet", "torch", "transformers", "sentence-transformers", "duckdb", "pyarrow")


@dataclass(frozen=True)
class RunPlan:
    """A validated recipe, its steps, and the arguments that would start the same run again."""

    recipe: Recipe
    steps: tuple[Step, ...]
    store: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class RunHandle:
    """A run that is going on. `asker`: of a run with steps that ask a language model."""

    plan: RunPlan
    store: Store
    run_id: str
    fingerprints: dict[str, Fingerprint]
    say: Say
    asker: Asker | None = None


@dataclass(frozen=True)
class StepResult:
    """What became of one step. state: reused, resumed or made; tables: rows by table."""

    step: str
    version: str
    state: str
    seconds: float
    tables: Mapping[str, int]


def prepare(
    recipe: str,
    store: str,
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> RunPlan:
    """The plan of a run, from what a person typed. Raises BadInput."""
    loaded = recipe_file.load(recipe, overrides, corpus, limit, seed)
    steps = compile_steps(loaded)
    if until is not None:
        steps = steps_until(steps, until)
    arguments = {
        "recipe": recipe,
        "overrides": list(overrides),
        "corpus": corpus,
        "until": until,
        "limit": limit,
        "seed": seed,
    }
    return RunPlan(loaded, steps, store, arguments)


def check_inputs(steps: Sequence[Step], checked: list[IngestConfig] | None = None) -> None:
    """See that the corpora can be read, and that weights which need no hub are there.

    Nothing is fetched, digested or written: it comes before the store, which a bad recipe must not
    leave behind.

    checked: corpora that were looked at already, and are not again; these steps' are added.

    Raises: BadInput.
    """
    checked = [] if checked is None else checked
    for step in steps:
        if isinstance(step.config, IngestConfig) and step.config not in checked:
            check_corpora(step.config)
            checked.append(step.config)
    sources = dict.fromkeys(source for step in steps for source in step.models.values())
    for source in sources:
        if isinstance(source, Weights):
            try:
                weights.locate(source.name)
            except weights.ModelMissing as error:
                raise BadInput(str(error)) from None


@contextmanager
def open_run(plan: RunPlan, say: Say = lambda text: None) -> Iterator[RunHandle]:
    """A run in the store: its start is written now, its end when the block is left.

    The run's lock is held meanwhile and released by the system if the process is killed, so
    that a run without an end and without a holder is known to have crashed.
    """
    check_inputs(plan.steps)
    store = open_store(plan.store)
    prints = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)
    run_id = runs.start_run(
        store,
        plan.recipe.name,
        plan.recipe.model_dump(mode="json"),
        {
            "arguments": dict(plan.arguments),
            "pid": os.getpid(),
            "seed": plan.recipe.seed,
            "steps": [step.name for step in plan.steps],
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


@contextmanager
def _asker(plan: RunPlan, store: Store, run_id: str, say: Say) -> Iterator[Asker | None]:
    """What asks the language model, for a run with steps that do."""
    if all(step.stage.asks is None for step in plan.steps):
        yield None
        return
    asker = Asker(store, plan.recipe, run_id, say)
    try:
        yield asker
    finally:
        asker.close()


def run_step(handle: RunHandle, step: Step, progress: Progress) -> StepResult:
    """Makes the step's artifact, or what is missing of it, and notes it in the run.

    Nothing is done where the artifact is complete. Two runs that want the same artifact take
    turns: the second waits, says so, and finds it done.
    """
    began = time.monotonic()
    print_ = handle.fingerprints[step.name]
    assert print_.version is not None
    artifact = open_artifact(handle.store, step.name, print_.version)
    manifest = artifact.manifest()
    state = "reused"
    if manifest is not None and artifact.intact():
        artifact.clear_scratch()
    else:
        name = f"artifact-{step.name}-{print_.version}"
        with locks.hold(handle.store, name, _waiting(handle, step), f"run {handle.run_id}"):
            manifest = artifact.manifest()
            if not artifact.intact():
                handle.say(f"{step.name:<32} lacks files that its records name: made anew")
                artifact.discard()
                manifest = None
            if manifest is None:
                state = "resumed" if artifact.records() else "made"
                manifest = _make(handle, step, print_, artifact, progress)
    if handle.asker is not None and not _asked_later(handle.plan, step):
        handle.asker.release()
    result = StepResult(
        step.name,
        print_.version,
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


def _asked_later(plan: RunPlan, step: Step) -> bool:
    """Whether some step behind this one asks the language model."""
    names = [other.name for other in plan.steps]
    return any(other.stage.asks is not None for other in plan.steps[names.index(step.name) + 1 :])


def _waiting(handle: RunHandle, step: Step) -> Say:
    """Says who makes the step's artifact now."""
    return lambda holder: handle.say(f"{step.name:<32} waits for {holder}, which is making it")


def artifact_of(handle: RunHandle, step: str) -> Artifact:
    """The artifact of a step of this run."""
    version = handle.fingerprints[step].version
    assert version is not None
    return open_artifact(handle.store, step, version)


def order_of(handle: RunHandle, step: Step) -> PartOrder:
    """What the parts of a step of this run have in common, once its inputs are made."""
    return _order(handle, step, handle.fingerprints[step.name], [], silent)


def _make(
    handle: RunHandle, step: Step, print_: Fingerprint, artifact: Artifact, progress: Progress
) -> dict[str, Any]:
    began = time.monotonic()
    standing = artifact.plan()
    recalled = _recalled(handle, step, print_, standing)
    order = _order(handle, step, print_, recalled, progress)
    if standing is None:
        planned = None if step.stage.plan is None else order.planned_specs()
        proposed = parts.specs(step, planned, order.inputs, [a.version for a in recalled])
        standing = artifact.adopt_plan(proposed)
    records = artifact.records()
    missing = [index for index in range(len(standing)) if index not in records]
    done = len(standing) - len(missing)
    show = progress if len(standing) == 1 else _by_part(progress, done, len(standing))
    pending = []
    for index in missing:
        part = order.part(index, standing[index])
        known = find_part(handle.store, step.name, part.key)
        if known is not None:
            artifact.reference(index, known, part.info)
            show(1, 1, "parts")
        else:
            pending.append(part)
    if step.stage.asks is not None and handle.asker is not None:
        handle.asker.begin()
        commit_asking_parts(order, pending, handle.asker.cancel)
    else:
        commit_parts(order, pending, handle.plan.recipe.run.workers, show)
    return artifact.finish(
        {
            "step": step.name,
            "stage": step.stage.name,
            "version": print_.version,
            "run": handle.run_id,
            "inputs": _lineage(print_.components),
            "components": dict(print_.components),
            "modules": dict(print_.modules),
            "libraries": _libraries(),
            "seconds": round(time.monotonic() - began, 3),
        }
    )


def _order(
    handle: RunHandle,
    step: Step,
    print_: Fingerprint,
    recalled: Sequence[Artifact],
    progress: Progress,
) -> PartOrder:
    """Everything that the parts of this step have in common."""
    settings = handle.plan.recipe.run
    by_name = {s.name: s for s in handle.plan.steps}
    inputs = {
        slot: parts.input_files(handle.store, [artifact_of(handle, name) for name in names])
        for slot, names in step.inputs.items()
    }
    schemas = {
        slot: {t: schema for name in names for t, schema in by_name[name].stage.tables.items()}
        for slot, names in step.inputs.items()
    }
    if recalled:
        inputs["known"] = parts.input_files(handle.store, recalled)
        schemas["known"] = dict(step.stage.tables)
    models = {}
    for slot, model in step.models.items():
        if isinstance(model, Weights):
            models[slot] = fingerprints.model_path(model.name)
            continue
        folder = artifact_of(handle, model.step).model_dir()
        if folder is None:
            raise BadInput(f"The step {model.step!r} has left no model for {step.name!r}.")
        models[slot] = folder
    return PartOrder(
        location=handle.plan.store,
        step=step,
        version=print_.version or "",
        seed=handle.plan.recipe.seed,
        components=dict(print_.components),
        inputs={name: parts.slot(name, files) for name, files in inputs.items()},
        schemas=schemas,
        models=models,
        model_digests={k: str(v) for k, v in print_.components["models"].items()},
        resources=Resources(
            device=device(settings.device),
            batch_size=settings.batch_size,
            part_rows=settings.part_rows,
            memory_limit=settings.memory_limit,
            progress=progress,
            ask=_ask(handle, step, print_),
        ),
    )


def _ask(handle: RunHandle, step: Step, print_: Fingerprint) -> Ask | None:
    if step.stage.asks is None:
        return None
    assert handle.asker is not None
    return handle.asker.asking(print_.components)


def _recalled(
    handle: RunHandle, step: Step, print_: Fingerprint, standing: Sequence[Mapping[str, Any]] | None
) -> list[Artifact]:
    """Complete earlier versions of the step that differ in their inputs alone.

    A plan that stands names those it was made with: what came since would change its parts.
    """
    if not step.stage.recalls:
        return []
    if standing is not None:
        versions = standing[0].get("known", []) if standing else []
        known = [open_artifact(handle.store, step.name, version) for version in versions]
        for artifact in known:
            if artifact.manifest() is None or not artifact.intact():
                raise BadInput(
                    f"{step.name}@{artifact.version}, which {step.name}@{print_.version} builds "
                    f"on, was removed: delete {handle.plan.store}/artifacts/{step.name}/"
                    f"{print_.version} and run again."
                )
        return known
    fixed = ("stage", "config", "models", "externals", "code", "libraries")
    found = []
    for version in handle.store.list(f"artifacts/{step.name}"):
        artifact = open_artifact(handle.store, step.name, version)
        manifest = artifact.manifest()
        if manifest is not None and version != print_.version:
            components = manifest["components"]
            if all(components.get(k) == print_.components.get(k) for k in fixed):
                found.append(artifact)
    return found


def device(wanted: str) -> str:
    """The device that `auto` stands for: the first GPU, or the CPU."""
    if wanted != "auto":
        return wanted
    try:
        metadata.version("nvidia-cuda-runtime-cu12")
    except metadata.PackageNotFoundError:
        if not os.path.exists("/dev/nvidia0"):  # noqa: PTH110 - a device file, no path of ours
            return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _by_part(progress: Progress, done: int, total: int) -> Progress:
    """Progress in parts: a part's own steps count as fractions of it."""
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
    for name in TOLD_LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
