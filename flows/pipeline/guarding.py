"""Steps that search the training texts for texts of evaluation sets."""

from pathlib import Path

from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.scoring import evaluator
from tercet.flows.pipeline.step import Model, Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.guarding import guard


def guarded(recipe: Recipe, what: str) -> dict[str, tuple[str, ...]]:
    """The input slot with the rows to exclude from training, if there is anything to guard."""
    if not evaluate.measures_texts(recipe.evaluate):
        return {}
    return {f"guarded_{what}": (f"guard.{what}",)}


def guard_config(recipe: Recipe, stored: bool = False) -> guard.GuardConfig:
    encoding = recipe.embed.model_dump()
    if recipe.guard.encoder is not None and not stored:
        encoding |= {"pooling": None, "prompt": None}
    choose = recipe.train.choose
    return guard.GuardConfig(
        **recipe.guard.model_dump(),
        # Tasks of mteb and files of one's own need no directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=evaluate.measured_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=() if choose is None or choose.by not in STS_TASKS else (choose.by,),
        fact_order=tuple(recipe.evaluate.fact_order.items()),
        sts_sets=tuple(recipe.evaluate.sts_sets.items()),
        **encoding,
    )


def shortlist_encoder(recipe: Recipe) -> dict[str, Model]:
    """The encoder to use if no vectors are stored; None if it is still to be fitted."""
    given = None if recipe.evaluator is None else recipe.evaluator.model
    name = recipe.guard.encoder or given
    off = name is None or recipe.guard.embedding_min is None
    return {} if off or name is None else {"encoder": model_named(recipe, name)}


def sentences_guard(recipe: Recipe) -> Step:
    inputs = {"sentences": ("ingest",)}
    models = shortlist_encoder(recipe)
    return Step("guard.sentences", guard.SENTENCES, guard_config(recipe), inputs, models)


def pairs_guard(recipe: Recipe) -> Step:
    inputs, models = {"document_pairs": ("ingest",)}, shortlist_encoder(recipe)
    return Step("guard.document_pairs", guard.TRIPLETS, guard_config(recipe), inputs, models)


def labelled_guard(recipe: Recipe) -> Step:
    inputs = {"labelled": ("labelled",)}
    models = shortlist_encoder(recipe)
    return Step("guard.labelled", guard.LABELLED, guard_config(recipe), inputs, models)


def triplets_guard(recipe: Recipe) -> Step:
    """By the evaluator's vectors of all texts, which are stored; without one, by the shortlist."""
    name, inputs = "guard.triplets", {"triplets": ("select",)}
    if recipe.guard.embedding_min is None or recipe.evaluator is None:
        models = shortlist_encoder(recipe)
        return Step(name, guard.TRIPLETS, guard_config(recipe), inputs, models)
    inputs["embeddings"] = ("embed",)
    models = {"encoder": evaluator(recipe)}
    return Step(name, guard.TRIPLETS, guard_config(recipe, stored=True), inputs, models)
