"""Steps from candidates to triplets."""

from tercet.flows.pipeline.step import Made, Model, Step, Weights
from tercet.flows.recipe.model import Recipe
from tercet.tasks.scoring import embed, score, select


def evaluator(recipe: Recipe) -> Model:
    """Where the evaluator's weights come from."""
    assert recipe.evaluator is not None
    if recipe.evaluator.fit is not None:
        return Made("fit_evaluator")
    return Weights(recipe.evaluator.model or "")


def scoring_steps(recipe: Recipe) -> list[Step]:
    return [
        Step(
            "embed",
            embed.STAGE,
            recipe.embed,
            {"candidates": ("parse",), "sentences": ("ingest",)},
            {"evaluator": evaluator(recipe)},
        ),
        Step(
            "score",
            score.STAGE,
            score.ScoreConfig(),
            {"candidates": ("parse",), "embeddings": ("embed",)},
        ),
        Step(
            "select",
            select.STAGE,
            recipe.select,
            {
                "candidates": ("parse",),
                "scores": ("score",),
                "sentences": ("ingest",),
                "document_pairs": ("ingest",),
            },
        ),
    ]
