"""Compiles a recipe into its steps, each with its stage, config and inputs."""

from collections.abc import Sequence

from tercet.flows.pipeline.corpus import corpus_steps, labelled_steps, of_role, pretrain_corpora
from tercet.flows.pipeline.evaluation import awareness_step, generator_measures, own_measures
from tercet.flows.pipeline.guarding import (
    guarded,
    labelled_guard,
    pairs_guard,
    sentences_guard,
    triplets_guard,
)
from tercet.flows.pipeline.knowledge import knowledge_steps, without_unread
from tercet.flows.pipeline.making import fits_to_sentences, model_steps
from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.step import Step, in_order, until
from tercet.flows.pipeline.synthesis import synthesis_steps
from tercet.flows.pipeline.training import on_triplets, sources, training_steps
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.training import fit_evaluator


def compile_steps(recipe: Recipe) -> tuple[Step, ...]:
    """The recipe's steps, each after its inputs."""
    steps = [*corpus_steps(recipe), *pretrain_corpora(recipe), *labelled_steps(recipe)]
    evaluator, trained_on = recipe.evaluator, sources(recipe)
    synthesis = bool(recipe.synthesise)
    starts = any("evaluator" in phase.models() for phase in recipe.train.phases)
    judges = any(settings.fit_pair is not None for settings in recipe.models.values())
    fits = evaluator is not None and evaluator.fit and (synthesis or starts or judges)
    measured = evaluate.measures_texts(recipe.evaluate)
    if measured and recipe.labelled:
        steps.append(labelled_guard(recipe))
    sentences = fits or "anchors" in trained_on or recipe.whiten is not None
    if measured and (sentences or fits_to_sentences(recipe)):
        steps.append(sentences_guard(recipe))
    steps += [*model_steps(recipe), *generator_measures(recipe)]
    if evaluator is not None and evaluator.fit and fits:
        inputs = {"sentences": ("ingest",), **guarded(recipe, "sentences")}
        backbone = {"backbone": model_named(recipe, recipe.backbone)}
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
        steps.append(awareness_step(recipe, recipe.awareness, by_model))
    steps += own_measures(recipe)
    if measured and on_triplets(recipe):
        steps.append(triplets_guard(recipe))
    if measured and "document_pairs" in trained_on:
        steps.append(pairs_guard(recipe))
    steps += training_steps(recipe)
    return in_order(steps)


def steps_to_run(recipe: Recipe, target: str | None = None) -> tuple[Step, ...]:
    """The steps that a run makes: those that `target` needs, by default all that are read.

    Raises: BadInput for an unknown target.
    """
    steps = compile_steps(recipe)
    return without_unread(steps) if target is None else until(steps, target)


def left_out(recipe: Recipe, steps: Sequence[Step]) -> str | None:
    """One line for the steps that a whole run leaves out; None if there are none."""
    made = {step.name for step in steps}
    unread = [step.name for step in compile_steps(recipe) if step.name not in made]
    if not unread:
        return None
    return (
        f"Not made, since nothing in this recipe reads it: {', '.join(unread)} "
        f"(--until {unread[-1]} makes it)."
    )
