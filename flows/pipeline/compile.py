"""Compiles a recipe into its steps: which stage, with which config, reading which others."""

from tercet.flows.pipeline.corpus import corpus_steps
from tercet.flows.pipeline.evaluation import awareness_step
from tercet.flows.pipeline.guarding import guarded, sentences_guard, triplets_guard
from tercet.flows.pipeline.knowledge import knowledge_steps
from tercet.flows.pipeline.step import Step, Weights
from tercet.flows.pipeline.synthesis import synthesis_steps
from tercet.flows.pipeline.training import training_steps
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.training import fit_evaluator


def compile_steps(recipe: Recipe) -> tuple[Step, ...]:
    """The recipe's steps, each after those that it reads."""
    steps = [*corpus_steps(recipe)]
    # Triplets of a file leave nothing to synthesise.
    synthesis = bool(recipe.synthesise) and recipe.train.triplets is None
    evaluator = recipe.evaluator
    fits = evaluator is not None and evaluator.fit and (synthesis or recipe.start == "evaluator")
    dropout = recipe.train.triplets is None and any(
        phase.rows == "dropout" for phase in recipe.train.phases
    )
    measured = bool(evaluate.measured_tasks(recipe.evaluate))
    if measured and (fits or dropout):
        steps.append(sentences_guard(recipe))
    if evaluator is not None and evaluator.fit and fits:
        inputs = {"sentences": ("ingest",), **guarded(recipe, "sentences")}
        backbone = {"backbone": Weights(recipe.backbone)}
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, evaluator.fit, inputs, backbone))
    # Without synthesis only the measure reads the graph, and no language model is asked for it.
    by_model = synthesis and recipe.extract_generate is not None
    if synthesis or recipe.awareness is not None:
        steps += knowledge_steps(recipe, by_model)
    if synthesis:
        steps += synthesis_steps(recipe)
    if recipe.awareness is not None:
        steps.append(awareness_step(recipe.awareness, by_model))
    if measured and (
        recipe.train.triplets is not None
        or any(phase.rows != "dropout" for phase in recipe.train.phases)
    ):
        steps.append(triplets_guard(recipe))
    steps += training_steps(recipe)
    return tuple(steps)
