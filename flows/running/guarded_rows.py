"""A warning after a guard that leaves the evaluation sets' own texts in training."""

import pyarrow.compute as pc

from tercet.flows.pipeline.step import Step
from tercet.storage.artifacts import Artifact
from tercet.tasks.guarding.guard import GuardConfig

# Sets named in the sentence.
_NAMED = 4


def warning(step: Step, artifact: Artifact) -> str | None:
    """One sentence if the step found such texts and removes none; else None.

    artifact: the step's, finished.
    """
    if not isinstance(step.config, GuardConfig) or step.config.action != "report":
        return None
    found = artifact.rows().table("contamination", ["text_id", "task"])
    if not found.num_rows:
        return None
    counts = sorted(found["task"].value_counts().to_pylist(), key=lambda one: -one["counts"])
    named = ", ".join(f"{one['values']} {one['counts']:,}" for one in counts[:_NAMED])
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    texts = pc.count_distinct(found["text_id"]).as_py()
    said = "1 training text stands" if texts == 1 else f"{texts:,} training texts stand"
    trained = "is" if texts == 1 else "are"
    return (
        f"{step.name}: {said} in evaluation sets ({named}{more}) and {trained} trained on, since "
        "guard.action is report: "
        "figures of these sets are transductive, and do not show how the encoder does on new texts."
    )
