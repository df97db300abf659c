"""Steps that evaluate encoders."""

from tercet.flows.pipeline.step import Step, Weights
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import awareness, halves, labels


def awareness_step(settings: awareness.AwarenessSettings, by_model: bool) -> Step:
    """The awareness steps; a language model extracts only from training sentences."""
    inputs = {"sentences": ("ingest",), "graph": ("graph",)}
    if not by_model:
        inputs["mentions"] = ("extract",)
    config = awareness.AwarenessConfig(**settings.model_dump(exclude={"teacher"}))
    teacher = {"teacher": Weights(settings.teacher)}
    return Step("awareness", awareness.STAGE, config, inputs, teacher)


def own_measures(recipe: Recipe) -> list[Step]:
    """The steps that make measures of the corpora's own texts, under the slots of `evaluate`."""
    steps = []
    if recipe.evaluate.halves:
        inputs: dict[str, tuple[str, ...]] = {"sentences": ("ingest",)}
        steps.append(Step("halves", halves.STAGE, halves.HalvesConfig(), inputs))
    columns = {corpus.name: corpus.labels for corpus in recipe.unlabelled if corpus.labels}
    if columns:
        inputs = {"sentences": ("ingest",), "documents": ("ingest",)}
        steps.append(Step("labels", labels.STAGE, labels.LabelsConfig(columns=columns), inputs))
    return steps
