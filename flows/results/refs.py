"""What a person means by a name: an artifact in the store, of the newest run or of a given one."""

from collections.abc import Mapping
from typing import Any

from tercet.storage import runs, tags
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput


def artifact_of(store: Store, ref: str, run_ref: str | None) -> Artifact:
    """The artifact that `ref` means; with a run, a step or table is the one of that run.

    Raises: StoreError with one sentence for a name that stands for nothing, BadInput where the run
    has not reached it.
    """
    if run_ref is None or "@" in ref or tags.get_tag(store, ref) is not None:
        return tags.resolve_ref(store, ref)
    run = runs.resolve_run(store, run_ref)
    # A step's whole name before those of its stage: `train` is not `train.seed43`.
    latest = list(reversed(run["steps"]))
    for entry in sorted(latest, key=lambda entry: entry["step"] != ref):
        if ref in _names(entry):
            return open_artifact(store, entry["step"], entry["version"])
    reached = sorted({name for entry in run["steps"] for name in _names(entry)})
    raise BadInput(
        f"The run {run['run_id']} has reached nothing called {ref!r}; it has: "
        f"{', '.join(reached) or 'nothing yet'}."
    )


def _names(entry: Mapping[str, Any]) -> set[str]:
    return {entry["step"], entry.get("stage", entry["step"]), *entry.get("tables", {})}
