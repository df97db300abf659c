"""`tercet accept`: keeps results valid after a code edit that does not affect them."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from pydantic import ValidationError

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.compile import steps_to_run
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.misplaced import Misplaced
from tercet.flows.recipe.model import Recipe
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage import accepted, fingerprint, runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput

Run = Mapping[str, Any]


def accept_stage(stage: str, recipe: str | None, store: str, run_ref: str | None) -> None:
    """Records, for each step, that the stage's current code yields its existing results.

    The results are those of the newest run (of the given recipe, or of any) that reached the
    step. Without a recipe, the one recorded with the run is used.

    Raises: BadInput when the code has not changed, when more than the code has, when it now makes
    tables or columns that the results lack, or when there are no results to adopt.
    """
    opened = open_store(store, create=False)
    chosen = runs.resolve_run(opened, run_ref) if run_ref is not None or recipe is None else None
    if recipe is not None:
        plan = prepare(RunArguments(recipe, store))
        loaded, steps = plan.recipe, plan.steps
    else:
        assert chosen is not None
        loaded, steps = _recorded(chosen)
    wanted = [step for step in steps if stage in (step.name, step.stage.name)]
    if not wanted:
        names = ", ".join(dict.fromkeys(step.stage.name for step in steps))
        raise BadInput(f"There is no stage {stage!r} in this recipe; it has: {names}.")
    found = [chosen] if run_ref is not None and chosen is not None else runs.list_runs(opened)
    candidates = [run for run in found if run["recipe_name"] == loaded.name]
    accepted_steps, refused, same = [], [], []
    for step in wanted:
        # Recomputed for each step: one accepted a moment ago may be an input of this one.
        own = fingerprints.fingerprints(steps, loaded.seed, opened)[step.name]
        manifest = _newest_result(opened, step, candidates)
        if manifest is None:
            refused.append(f"{step.name} has no finished result in a run of {loaded.name}")
        elif own.version == manifest["version"]:
            same.append(step.name)
        elif faults := _faults(own, manifest, steps):
            refused.append(f"{step.name} differs in more than its code: {'; '.join(faults)}")
        elif lacking := _lacking(opened, step, manifest):
            refused.append(f"{step.name} has no {', '.join(lacking)}, which its code now makes")
        else:
            accepted_steps.append(_accept(opened, step, own, manifest))
    for line in accepted_steps:
        typer.echo(line)
    if refused:
        raise BadInput(f"{'. '.join(_capital(text) for text in refused)}. Run the recipe instead.")
    if not accepted_steps:
        raise BadInput(
            f"Nothing to accept: the code of {', '.join(same)} has not changed since its results "
            "were made."
        )


def _recorded(run: Run) -> tuple[Recipe, tuple[Step, ...]]:
    """The recipe as recorded with the run, whether or not its file still exists."""
    try:
        loaded = Recipe.model_validate(run["recipe"])
        target = (run.get("info") or {}).get("arguments", {}).get("until")
        return loaded, steps_to_run(loaded, target)
    except (ValidationError, Misplaced):
        raise BadInput(
            f"The recipe recorded with run {run['run_id']} is no longer valid: give the recipe's "
            "name after the stage."
        ) from None


def _newest_result(store: Store, step: Step, candidates: Sequence[Run]) -> dict[str, Any] | None:
    for run in candidates:
        for entry in run["steps"]:
            if entry["step"] == step.name:
                manifest = open_artifact(store, step.name, entry["version"]).manifest()
                if manifest is not None:
                    return manifest
    return None


def _faults(own: Fingerprint, manifest: Mapping[str, Any], steps: Sequence[Step]) -> list[str]:
    """Differences other than the code, in words; a changed input names its stage."""
    if own.version is None:
        return ["its weights are missing and cannot be compared: run the recipe once"]
    now = {key: value for key, value in own.components.items() if key != "code"}
    then = {key: value for key, value in manifest["components"].items() if key != "code"}
    if now == then:
        return []
    said = fingerprints.changes(then, now, {}, {})
    by_name = {step.name: step for step in steps}
    own_step = by_name[manifest["step"]]
    upstream = {by_name[name].stage.name for name in own_step.needs if name in by_name}
    if upstream and any(text.startswith(("input ", "model ")) for text in said):
        said.append(f"if only the code of {' or '.join(sorted(upstream))} did, accept it first")
    return said or ["its components"]


def _lacking(store: Store, step: Step, manifest: Mapping[str, Any]) -> list[str]:
    """The tables and columns of the stage that these results do not have."""
    rows = open_artifact(store, step.name, str(manifest["version"])).rows()
    missing = []
    for table, schema in step.stage.tables.items():
        if table not in rows.tables:
            missing.append(table)
        else:
            there = rows.schema(table).names
            missing += [f"{table}.{name}" for name in schema.names if name not in there]
    return missing


def _accept(store: Store, step: Step, own: Fingerprint, manifest: Mapping[str, Any]) -> str:
    old = str(manifest["components"]["code"])
    accepted.accept(store, step.name, fingerprint.digest(dict(own.modules)), old)
    before = manifest.get("modules", {})
    edited = sorted(
        name.removeprefix("tercet.")
        for name in before.keys() | own.modules.keys()
        if before.get(name) != own.modules.get(name)
    )
    return f"{step.name}@{manifest['version']} stays valid after the edit of {', '.join(edited)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
