"""Says what a run would do, and why: nothing is run, nothing is fetched, no model is loaded.

The pool of answers is opened only where a step will ask: that may seal what dead runs left in it.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Made, Step
from tercet.flows.planning.estimates import Estimate, estimate
from tercet.flows.running import parts
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.runner import RunPlan, check_inputs
from tercet.storage import runs
from tercet.storage.answers.pool import Pool, open_pool
from tercet.storage.artifacts import Artifact, find_part, open_artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import Resources


@dataclass(frozen=True)
class PlannedStep:
    """What would become of one step.

    state: reuse, resume, run or unknown. why: the changed components, in words.
    parts: parts that stand already and all parts, where that can be known beforehand.
    rows: rows of its inputs, where they exist.
    asking: of a step that asks a language model what that will take, once its inputs are there;
        lacking: those of its inputs that are not.
    """

    step: str
    version: str | None
    state: str
    why: tuple[str, ...]
    parts: tuple[int, int] | None
    rows: int | None
    asking: Estimate | None = None
    lacking: tuple[str, ...] = ()


def plan(run_plan: RunPlan) -> list[PlannedStep]:
    """One entry a step, in order. Raises BadInput for a corpus or model that does not exist."""
    if not Path(run_plan.store).exists():
        # Nothing was ever run: the same questions to an empty store, which leaves no trace.
        with tempfile.TemporaryDirectory() as folder:
            open_store(f"{folder}/store")
            return plan(replace(run_plan, store=f"{folder}/store"))
    store = open_store(run_plan.store, create=False)
    check_inputs(run_plan.steps)
    prints = fingerprints.fingerprints(run_plan.steps, run_plan.recipe.seed, store)
    earlier = _earlier_versions(store, run_plan)
    with ExitStack() as stack:

        @cache
        def pool() -> Pool:
            return stack.enter_context(open_pool(store, run_plan.recipe.name, ""))

        return [_planned(step, prints, store, run_plan, earlier, pool) for step in run_plan.steps]


def _planned(
    step: Step,
    prints: Mapping[str, Fingerprint],
    store: Store,
    run_plan: RunPlan,
    earlier: Mapping[str, list[str]],
    pool: Callable[[], Pool],
) -> PlannedStep:
    own = prints[step.name]
    if own.version is None:
        return PlannedStep(step.name, None, "unknown", (fingerprints.UNKNOWN,), None, None)
    artifact = open_artifact(store, step.name, own.version)
    if artifact.manifest() is not None:
        if artifact.intact():
            return PlannedStep(step.name, own.version, "reuse", (), None, None)
        gone = ("files of it are gone",)
        return PlannedStep(step.name, own.version, "run", gone, None, None)
    why = tuple(_why(step, own, store, earlier))
    standing = artifact.plan()
    records = artifact.records()
    inputs = _ready_inputs(step, prints, store)
    asking: Estimate | None = None
    lacking: tuple[str, ...] = ()
    if step.stage.asks is not None:
        if inputs is None:
            lacking = tuple(n for n in step.needs if _complete(prints, n, store) is None)
        else:
            asking = estimate(run_plan.recipe, _order(step, own, run_plan, inputs), pool())
    if standing is not None and records:
        done = (len(records), len(standing))
        return PlannedStep(step.name, own.version, "resume", why, done, None, asking, lacking)
    done_parts = _known_parts(step, own, store, run_plan, inputs) if inputs is not None else None
    rows = None if inputs is None else _count(step, prints, store)
    return PlannedStep(step.name, own.version, "run", why, done_parts, rows, asking, lacking)


def _earlier_versions(store: Store, run_plan: RunPlan) -> dict[str, list[str]]:
    """Versions of each step that runs of this recipe have reached, the newest first."""
    found: dict[str, list[str]] = {}
    for run in runs.list_runs(store):
        if run["recipe_name"] == run_plan.recipe.name:
            for entry in run["steps"]:
                found.setdefault(entry["step"], []).append(entry["version"])
    return found


def _why(step: Step, own: Fingerprint, store: Store, earlier: Mapping[str, list[str]]) -> list[str]:
    for version in earlier.get(step.name, []):
        manifest = open_artifact(store, step.name, version).manifest()
        if manifest is not None:
            found = fingerprints.changes(
                manifest["components"], own.components, manifest.get("modules", {}), own.modules
            )
            return found or ["changed back from another result"]
    return ["never run here"]


def _ready_inputs(
    step: Step, prints: Mapping[str, Fingerprint], store: Store
) -> dict[str, list[parts.PartFile]] | None:
    """The input files, or None while some input is still to be made."""
    slots: dict[str, list[parts.PartFile]] = {}
    for slot, names in step.inputs.items():
        artifacts = [_complete(prints, name, store) for name in names]
        if any(artifact is None for artifact in artifacts):
            return None
        slots[slot] = parts.input_files(store, [a for a in artifacts if a is not None])
    for model in step.models.values():
        if isinstance(model, Made) and _complete(prints, model.step, store) is None:
            return None
    return slots


def _complete(prints: Mapping[str, Fingerprint], name: str, store: Store) -> Artifact | None:
    version = prints[name].version
    artifact = None if version is None else open_artifact(store, name, version)
    return artifact if artifact is not None and artifact.manifest() is not None else None


def _known_parts(
    step: Step,
    own: Fingerprint,
    store: Store,
    run_plan: RunPlan,
    inputs: Mapping[str, list[parts.PartFile]],
) -> tuple[int, int] | None:
    """How many of the parts an earlier version has made already, and how many there are."""
    if step.stage.plan is not None:
        return None
    order = _order(step, own, run_plan, inputs)
    entries = parts.specs(step, None, order.inputs)
    keys = [order.part(index, entry).key for index, entry in enumerate(entries)]
    known = sum(find_part(store, step.name, key) is not None for key in keys)
    return known, len(entries)


def _order(
    step: Step,
    own: Fingerprint,
    run_plan: RunPlan,
    inputs: Mapping[str, list[parts.PartFile]],
) -> PartOrder:
    """What the step's parts have in common, without models: nothing is made with it."""
    by_name = {other.name: other for other in run_plan.steps}
    schemas = {
        slot: {t: schema for name in names for t, schema in by_name[name].stage.tables.items()}
        for slot, names in step.inputs.items()
    }
    return PartOrder(
        location=run_plan.store,
        step=step,
        version=own.version or "",
        seed=run_plan.recipe.seed,
        components=dict(own.components),
        inputs={name: parts.slot(name, files) for name, files in inputs.items()},
        schemas=schemas,
        models={},
        model_digests={k: str(v) for k, v in own.components["models"].items()},
        resources=Resources(),
    )


def _count(step: Step, prints: Mapping[str, Fingerprint], store: Store) -> int | None:
    """Rows of the table that the step maps or, failing that, of all its input tables."""
    if not step.inputs:
        return None
    total = 0
    for slot, names in step.inputs.items():
        for name in names:
            artifact = _complete(prints, name, store)
            manifest = None if artifact is None else artifact.manifest()
            if manifest is None:
                return None
            tables = manifest["tables"]
            if slot in tables and step.stage.each == slot:
                return int(tables[slot]["rows"])
            read = [slot] if slot in tables else [n for n in tables if n != parts.UNREAD]
            total += sum(int(tables[n]["rows"]) for n in read)
    return total
