"""Steps from candidates to triplets."""

from typing import Any

from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.step import Made, Model, Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.scoring import MEASURES, asks_probability, scorers
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import giving, scorer_named


def evaluator(recipe: Recipe) -> Model:
    """The source of the evaluator's weights."""
    assert recipe.evaluator is not None
    if recipe.evaluator.fit is not None:
        return Made("fit_evaluator")
    return model_named(recipe, recipe.evaluator.model)


def scoring_steps(recipe: Recipe) -> list[Step]:
    """The candidates' vectors if there is an evaluator, one step per scorer, and the selection."""
    scoring = [_score_step(recipe, name) for name in _scorers(recipe)]
    return [*_embed_steps(recipe), *scoring, *_mine_steps(recipe), _select_step(recipe)]


def _embed_steps(recipe: Recipe) -> list[Step]:
    if recipe.evaluator is None:
        return []
    inputs = {"candidates": ("parse",), "sentences": ("ingest",)}
    models = {"evaluator": evaluator(recipe)}
    return [Step("embed", embed.STAGE, recipe.embed, inputs, models)]


def _scorers(recipe: Recipe) -> list[str]:
    return scorers(recipe.score, evaluator=recipe.evaluator is not None)


def _score_step(recipe: Recipe, name: str) -> Step:
    scorer = scorer_named(name)
    sources = {"sentences": ("ingest",), "embeddings": ("embed",)}
    inputs = {"candidates": ("parse",)} | {str(slot): sources[slot] for slot in scorer.reads}
    config: Any = scorer.stage.config.model_validate(recipe.score.get(name) or {})
    named = config.models() if hasattr(config, "models") else {}
    models = {slot: model_named(recipe, model) for slot, model in named.items()}
    return Step(f"score.{name}", scorer.stage, config, inputs, models)


def _mine_steps(recipe: Recipe) -> list[Step]:
    """The step that mines negatives, where the recipe wants one."""
    if recipe.mine is None:
        return []
    inputs = {"candidates": ("parse",), "sentences": ("ingest",), "embeddings": ("embed",)}
    return [Step("mine", mine.STAGE, recipe.mine, inputs)]


def _select_step(recipe: Recipe) -> Step:
    """The selection, which reads only the scorers that it uses; adding others changes nothing."""
    config = recipe.select
    asks_p = asks_probability(config)
    asked: dict[str, str | None] = {}
    for measure in MEASURES:
        named = getattr(config, measure)
        wanted = measure == "similarity" or asks_p
        own = giving(measure, _scorers(recipe)) if wanted else []
        asked[measure] = (named or own[0]) if own else None
    steps = tuple(dict.fromkeys(f"score.{name}" for name in asked.values() if name is not None))
    mined = ("mine",) if recipe.mine is not None else ()
    inputs = {
        "candidates": ("parse", *mined),
        "scores": (*steps, *mined),
        "sentences": ("ingest",),
        "document_pairs": ("ingest",),
    }
    below = {"mined_below": recipe.mine.below} if recipe.mine is not None else {}
    given = {"by_similarity": asked["similarity"] is not None}
    paired = select.PairedConfig(**{**config.model_dump(), **asked, **below, **given})
    return Step("select", select.STAGE, paired, inputs)
