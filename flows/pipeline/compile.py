"""Compiles a recipe into its steps, each with its stage, config and inputs."""

from collections.abc import Sequence

from tercet.flows.pipeline.corpus import corpus_steps
from tercet.flows.pipeline.evaluation import (
    awareness_steps,
    generator_measures,
    judgement_steps,
    own_measures,
)
from tercet.flows.pipeline.guarding import guard_steps
from tercet.flows.pipeline.knowledge import STEPS, knowledge_steps
from tercet.flows.pipeline.making import model_steps
from tercet.flows.pipeline.retrieval import EVALUATOR, NEGATIVES, evaluator_vectors, negatives_steps
from tercet.flows.pipeline.scoring import scoring_steps
from tercet.flows.pipeline.step import Step, connect, in_order, until, without_unread
from tercet.flows.pipeline.synthesis import synthesis_steps
from tercet.flows.pipeline.training import training_steps
from tercet.flows.recipe.resolved import Resolved

# Made only for what reads them.
_ON_DEMAND = (
    *("guard.sentences", "guard.document_pairs", "guard.triplets", "guard.negatives"),
    *("fit_evaluator", EVALUATOR),
)
# What nothing reads is left out of a run.
_UNREAD = (*STEPS, *NEGATIVES.values(), EVALUATOR)


def compile_steps(resolved: Resolved) -> tuple[Step, ...]:
    """The recipe's steps, each after its inputs."""
    steps = [
        *corpus_steps(resolved),
        *judgement_steps(resolved.recipe),
        *model_steps(resolved),
        *generator_measures(resolved),
        *knowledge_steps(resolved.recipe),
        *synthesis_steps(resolved),
        *evaluator_vectors(resolved.recipe, resolved.evaluator),
        *scoring_steps(resolved),
        *negatives_steps(resolved),
        *awareness_steps(resolved),
        *own_measures(resolved.recipe),
        *guard_steps(resolved),
        *training_steps(resolved),
    ]
    return without_unread(in_order(connect(steps)), _ON_DEMAND)


def steps_to_run(steps: Sequence[Step], target: str | None = None) -> tuple[Step, ...]:
    """Those of a recipe's steps that `target` needs, by default all that are read.

    Raises: BadInput for an unknown target.
    """
    return without_unread(steps, _UNREAD) if target is None else until(steps, target)


def left_out(every: Sequence[Step], steps: Sequence[Step]) -> str | None:
    """One line for those of a recipe's steps that a whole run leaves out; None if there are none.

    every: the recipe's steps. steps: those that the run makes.
    """
    made = {step.name for step in steps}
    unread = [step.name for step in every if step.name not in made]
    if not unread:
        return None
    return (
        f"Not made, since nothing in this recipe reads it: {', '.join(unread)} "
        f"(--until {unread[-1]} makes it)."
    )
