"""Compiles a recipe into its steps, each with its stage, config and inputs."""

from tercet.flows.pipeline.corpus import corpus_steps, labelled_steps, of_role
from tercet.flows.pipeline.evaluation import awareness_step, own_measures
from tercet.flows.pipeline.guarding import (
    guarded,
    labelled_guard,
    pairs_guard,
    sentences_guard,
    triplets_guard,
)
from tercet.flows.pipeline.knowledge import knowledge_steps
from tercet.flows.pipeline.step import Step, Weights
from tercet.flows.pipeline.synthesis import synthesis_steps
from tercet.flows.pipeline.training import sources, training_steps
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.training import fit_evaluator
from tercet.tasks.training.phases import OF_TRIPLETS


def compile_steps(recipe: Recipe) -> tuple[Step, ...]:
    """The recipe's steps, each after its inputs."""
    steps = [*corpus_steps(recipe), *labelled_steps(recipe)]
    evaluator, trained_on = recipe.evaluator, sources(recipe)
    synthesis = bool(recipe.synthesise)
    starts = any("evaluator" in phase.models() for phase in recipe.train.phases)
    fits = evaluator is not None and evaluator.fit and (synthesis or starts)
    measured = evaluate.measures_texts(recipe.evaluate)
    if measured and recipe.labelled:
        steps.append(labelled_guard(recipe))
    if measured and (fits or "anchors" in trained_on):
        steps.append(sentences_guard(recipe))
    if evaluator is not None and evaluator.fit and fits:
        inputs = {"sentences": ("ingest",), **guarded(recipe, "sentences")}
        backbone = {"backbone": Weights(recipe.backbone)}
        # A role is replaced by its corpora's names, so that renaming a role refits nothing.
        corpora = evaluator.fit.corpora or of_role(recipe, evaluator.fit.role)
        fit = evaluator.fit.model_copy(update={"corpora": corpora, "role": None})
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, fit, inputs, backbone))
    # Without synthesis only the awareness measure reads the graph: no language model is needed.
    by_model = synthesis and recipe.extract_generate is not None
    if synthesis or recipe.awareness is not None:
        steps += knowledge_steps(recipe, by_model)
    if synthesis:
        steps += synthesis_steps(recipe)
    if recipe.awareness is not None:
        steps.append(awareness_step(recipe.awareness, by_model))
    steps += own_measures(recipe)
    if measured and any(source in OF_TRIPLETS for source in trained_on):
        steps.append(triplets_guard(recipe))
    if measured and "document_pairs" in trained_on:
        steps.append(pairs_guard(recipe))
    steps += training_steps(recipe)
    return tuple(steps)
