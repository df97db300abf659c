"""Steps that search the training texts for texts of evaluation sets."""

from pathlib import Path

from tercet.flows.pipeline.retrieval import negatives_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Resolved
from tercet.tasks.evaluation.evaluate_settings import list_tasks, measures_texts
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.guarding import guard

# What is searched, by which stage, and the step that makes it.
_SEARCHED = (
    ("labelled", guard.LABELLED, "labelled"),
    ("sentences", guard.SENTENCES, "ingest"),
    ("document_pairs", guard.TRIPLETS, "ingest"),
)


def guard_steps(resolved: Resolved) -> list[Step]:
    """A step for each kind of training rows, if there is anything to guard.

    Triplets are compared by the evaluator's vectors of all texts, which are stored. Other rows, and
    triplets without an evaluator, are compared by an encoder that exists already, if at all.
    """
    recipe, models = resolved.recipe, resolved.models
    if not measures_texts(recipe.evaluate):
        return []
    choose = recipe.train.choose
    stored = guard.GuardConfig(
        **recipe.guard.model_dump(),
        # Tasks of mteb and files of one's own need no directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=list_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=() if choose is None or choose.by not in STS_TASKS else (choose.by,),
        fact_order=tuple(recipe.evaluate.fact_order.items()),
        sts_sets=tuple(recipe.evaluate.sts_sets.items()),
        retrieval_sets=tuple(recipe.evaluate.retrieval_sets.items()),
        **recipe.embed.model_dump(),
    )
    own_form = {"pooling": None, "prompt": None} if recipe.guard.encoder is not None else {}
    config = stored.model_copy(update=own_form)
    named = models.get(("guard", "encoder")) or models.get(("evaluator", "model"))
    compares = recipe.guard.embedding_min is not None
    encoder = {"encoder": named.model} if named is not None and compares else {}
    steps = [
        Step(f"guard.{table}", stage, config, {table: (source,)}, encoder)
        for table, stage, source in _SEARCHED
        if table != "labelled" or recipe.labelled
    ]
    if mined := tuple(step.name for step in negatives_steps(resolved)):
        read = {"negatives": mined}
        steps.append(Step("guard.negatives", guard.TRIPLETS, config, read, encoder))
    read = {"triplets": ("select",)}
    if compares and resolved.evaluator is not None:
        config, encoder = stored, {"encoder": resolved.evaluator}
        read["embeddings"] = ("embed",)
    return [*steps, Step("guard.triplets", guard.TRIPLETS, config, read, encoder)]
