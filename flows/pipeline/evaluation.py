"""Steps that evaluate encoders."""

from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.step import Model, Step
from tercet.flows.recipe.generator_pairs import GENSE
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.named_models import made_as
from tercet.tasks.evaluation import awareness, halves, labels, measure_generators, paraphrase


def awareness_step(recipe: Recipe, settings: awareness.AwarenessSettings, by_model: bool) -> Step:
    """The awareness steps; a language model extracts only from training sentences."""
    inputs = {"sentences": ("ingest",), "graph": ("graph",)}
    if not by_model:
        inputs["mentions"] = ("extract",)
    config = awareness.AwarenessConfig(**settings.model_dump(exclude={"teacher"}))
    teacher = {"teacher": model_named(recipe, settings.teacher)}
    return Step("awareness", awareness.STAGE, config, inputs, teacher)


def generator_measures(recipe: Recipe) -> list[Step]:
    """A step `paraphrase.NAME` for each generator that paraphrases, and one that measures all."""
    settings = recipe.measure_generators
    if settings is None:
        return []
    of_pairs = settings.model_dump(include=set(paraphrase.PairsToMeasure.model_fields))
    of_pairs["corpora"] = settings.corpora or tuple(corpus.name for corpus in recipe.labelled)
    texts = [
        Step(
            f"paraphrase.{name}",
            paraphrase.STAGE,
            paraphrase.ParaphraseConfig(
                name=name, decoding=own.decoding(), precision=own.precision, **of_pairs
            ),
            {"labelled": ("labelled",)},
            {"generator": model_named(recipe, own.model)},
        )
        for name, own in recipe.generators.items()
        if made_as(own.model, recipe.models) != GENSE
    ]
    models: dict[str, Model] = {"encoder": model_named(recipe, settings.encoder)}
    if settings.judge is not None:
        models["judge"] = model_named(recipe, settings.judge)
    config = measure_generators.MeasureGeneratorsConfig(bootstrap=settings.bootstrap)
    inputs = {"texts": tuple(step.name for step in texts)}
    return [
        *texts,
        Step("measure_generators", measure_generators.STAGE, config, inputs, models),
    ]


def own_measures(recipe: Recipe) -> list[Step]:
    """The steps that make measures of the corpora's own texts, under the slots of `evaluate`."""
    steps = []
    if recipe.evaluate.halves:
        inputs: dict[str, tuple[str, ...]] = {"sentences": ("ingest",)}
        # Sentences of no field, which a recipe brings along, say nothing about the user's texts.
        own = tuple(corpus.name for corpus in recipe.unlabelled if corpus.role == "domain")
        least = recipe.evaluate.halves_min_words
        cut = halves.HalvesConfig(corpora=own, min_words=least)
        steps.append(Step("halves", halves.STAGE, cut, inputs))
    columns = {corpus.name: corpus.labels for corpus in recipe.unlabelled if corpus.labels}
    if columns:
        inputs = {"sentences": ("ingest",), "documents": ("ingest",)}
        steps.append(Step("labels", labels.STAGE, labels.LabelsConfig(columns=columns), inputs))
    return steps
