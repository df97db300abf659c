"""Steps that evaluate encoders."""

from tercet.flows.pipeline.step import Step, Weights
from tercet.tasks.evaluation import awareness


def awareness_step(settings: awareness.AwarenessSettings, by_model: bool) -> Step:
    """The awareness steps; a language model extracts only from training sentences."""
    inputs = {"sentences": ("ingest",), "graph": ("graph",)}
    if not by_model:
        inputs["mentions"] = ("extract",)
    config = awareness.AwarenessConfig(**settings.model_dump(exclude={"teacher"}))
    teacher = {"teacher": Weights(settings.teacher)}
    return Step("awareness", awareness.STAGE, config, inputs, teacher)
