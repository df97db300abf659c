"""Resolves a name to an artifact in the store, of the newest run or of a given one."""

from collections.abc import Collection, Mapping
from typing import Any

from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.rows import Rows, joined
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput


def find_artifact(store: Store, ref: str, run_ref: str | None) -> Artifact:
    """The artifact that `ref` names; given a run, steps and tables are those of that run.

    Raises: StoreError for an unknown name, BadInput if the run has not reached it, or if what it
        has made was removed.
    """
    of_run = "@" not in ref and not ref.startswith(runs.TAG_PREFIX)
    if run_ref is None or not of_run or runs.get_tag(store, ref) is not None:
        return runs.resolve_ref(store, ref)
    run = runs.resolve_run(store, run_ref)
    fitting = {entry["step"]: entry for entry in run["steps"] if ref in _names(entry)}
    if fitting:
        entry = fitting[runs.meant(ref, list(fitting))]
        artifact = open_artifact(store, entry["step"], entry["version"])
        if artifact.manifest() is None and not artifact.records():
            raise BadInput(
                f"{artifact.name}, which run {run['run_id']} reached, was "
                "removed: run its recipe again."
            )
        return artifact
    reached = sorted({name for entry in run["steps"] for name in _names(entry)})
    raise BadInput(
        f"Run {run['run_id']} has not reached anything called {ref!r}; it has: "
        f"{', '.join(reached) or 'nothing yet'}."
    )


def final_stage(stages: Collection[str]) -> str | None:
    """The stage among these whose encoder a run ends with; None without one."""
    return next((stage for stage in ("choose", "whiten", "train") if stage in stages), None)


def final_model(store: Store, run_ref: str | None) -> str:
    """The step whose encoder the run ends with. Raises StoreError for an unknown run."""
    run = runs.resolve_run(store, run_ref)
    return final_stage({entry["stage"] for entry in run["steps"]}) or "train"


def rows_of_stage(store: Store, run: Mapping[str, Any], stage: str) -> Rows:
    """The rows of this stage's steps in this run; of no table if it has reached none."""
    steps = (entry for entry in run["steps"] if entry.get("stage", entry["step"]) == stage)
    return joined([open_artifact(store, one["step"], one["version"]).rows() for one in steps])


def named_run(run: Mapping[str, Any]) -> str:
    """The beginning of a sentence about a run."""
    return f"Run {run['run_id']} of {run['recipe_name']}"


def check_finished(artifact: Artifact) -> None:
    """Raises BadInput for an artifact that is not finished."""
    if artifact.manifest() is None:
        raise BadInput(f"{artifact.name} is not finished: run its recipe again to resume it.")


def _names(entry: Mapping[str, Any]) -> set[str]:
    return {entry["step"], entry.get("stage", entry["step"]), *entry.get("tables", {})}
