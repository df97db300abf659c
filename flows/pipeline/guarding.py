"""Steps that look for texts of evaluation sets among those trained on."""

from pathlib import Path

from tercet.flows.pipeline.scoring import evaluator
from tercet.flows.pipeline.step import Model, Step, Weights
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.guarding import guard


def guarded(recipe: Recipe, what: str) -> dict[str, tuple[str, ...]]:
    """The slot of the rows that must not be trained on, where there is something to guard."""
    if not evaluate.measured_tasks(recipe.evaluate):
        return {}
    return {f"guarded_{what}": (f"guard.{what}",)}


def guard_config(
    recipe: Recipe, triplets: str | None = None, stored: bool = False
) -> guard.GuardConfig:
    encoding = recipe.embed.model_dump()
    if recipe.guard.encoder is not None and not stored:
        encoding["pooling"] = None
    choose = recipe.train.choose
    return guard.GuardConfig(
        **recipe.guard.model_dump(),
        # Tasks of mteb, which are all there is without a suite, lie in no directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=evaluate.measured_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=() if choose is None or choose.by == "retrieval" else (choose.by,),
        triplets=triplets,
        **encoding,
    )


def shortlist_encoder(recipe: Recipe) -> dict[str, Model]:
    """What encodes where no vectors are stored: none that is itself still to be fitted."""
    given = None if recipe.evaluator is None else recipe.evaluator.model
    name = recipe.guard.encoder or given
    off = name is None or recipe.guard.embedding_min is None
    return {} if off or name is None else {"encoder": Weights(name)}


def sentences_guard(recipe: Recipe) -> Step:
    inputs = {"sentences": ("ingest",)}
    models = shortlist_encoder(recipe)
    return Step("guard.sentences", guard.SENTENCES, guard_config(recipe), inputs, models)


def triplets_guard(recipe: Recipe) -> Step:
    """Over triplets that were scored here the evaluator's vectors of all their texts are stored."""
    name, file = "guard.triplets", recipe.train.triplets
    if file is not None:
        models = shortlist_encoder(recipe)
        return Step(name, guard.TRIPLETS, guard_config(recipe, file), {}, models)
    inputs = {"triplets": ("select",)}
    if recipe.guard.embedding_min is None:
        return Step(name, guard.TRIPLETS, guard_config(recipe), inputs)
    inputs["embeddings"] = ("embed",)
    models = {"encoder": evaluator(recipe)}
    return Step(name, guard.TRIPLETS, guard_config(recipe, stored=True), inputs, models)
