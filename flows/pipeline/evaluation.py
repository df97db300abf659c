"""Steps that measure encoders and generators beside training, and cut what encoders are asked."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import GENSE, Resolved
from tercet.tasks.evaluation import (
    awareness,
    halves,
    judgements,
    labels,
    measure_generators,
    paraphrase,
)


def awareness_steps(resolved: Resolved) -> list[Step]:
    """The awareness measure; a language model extracts only from training sentences."""
    settings = resolved.recipe.awareness
    if settings is None:
        return []
    inputs = {"sentences": ("ingest",), "graph": ("graph",), "mentions": ("extract",)}
    teacher = {"teacher": resolved.models["awareness", "teacher"].model}
    return [Step("awareness", awareness.STAGE, settings, inputs, teacher)]


def generator_measures(resolved: Resolved) -> list[Step]:
    """A step `paraphrase.NAME` for each generator that paraphrases, and one that measures all."""
    recipe, settings = resolved.recipe, resolved.recipe.measure_generators
    if settings is None:
        return []
    of_pairs = settings.model_dump(include=set(paraphrase.PairsToMeasure.model_fields))
    steps = []
    for name, own in recipe.generators.items():
        found = resolved.models["generators", name, "model"]
        if found.form == GENSE:
            continue
        asked = paraphrase.ParaphraseConfig(
            name=name, decoding=own.decoding(), precision=own.precision, **of_pairs
        )
        inputs, model = {"labelled": ("labelled",)}, {"generator": found.model}
        steps.append(Step(f"paraphrase.{name}", paraphrase.STAGE, asked, inputs, model))
    models = {
        str(place[1]): found.model
        for place, found in resolved.models.items()
        if place[0] == "measure_generators"
    }
    config = measure_generators.MeasureGeneratorsConfig(bootstrap=settings.bootstrap)
    texts = {"texts": tuple(step.name for step in steps)}
    return [*steps, Step("measure_generators", measure_generators.STAGE, config, texts, models)]


def own_measures(recipe: Recipe) -> list[Step]:
    """The steps that make measures of the corpora's own texts, under the slots of `evaluate`."""
    steps = []
    if recipe.evaluate.halves and recipe.unlabelled:
        # Sentences of no field, which a recipe brings along, say nothing about the user's texts.
        own = tuple(corpus.name for corpus in recipe.unlabelled if corpus.role == "domain")
        cut = halves.HalvesConfig(corpora=own, min_words=recipe.evaluate.halves_min_words)
        steps.append(Step("halves", halves.STAGE, cut, {"sentences": ("ingest",)}))
    columns = {corpus.name: corpus.labels for corpus in recipe.unlabelled if corpus.labels}
    if columns:
        inputs = {"sentences": ("ingest",), "documents": ("ingest",)}
        steps.append(Step("labels", labels.STAGE, labels.LabelsConfig(columns=columns), inputs))
    return steps


def judgement_steps(recipe: Recipe) -> list[Step]:
    """The step that finds what answers questions of one's own; before all that takes long."""
    tables, choose = recipe.evaluate.questions, recipe.train.choose
    if not tables:
        return []
    asked = judgements.JudgementsConfig(
        sets=tables,
        splits=recipe.evaluate.splits,
        chosen_on=choose.by if choose is not None and choose.by in tables else None,
        corpora=list(recipe.unlabelled),
        max_line_bytes=recipe.ingest.max_line_bytes,
    )
    return [Step(judgements.NAME, judgements.STAGE, asked, {"passages": ("passages",)})]
